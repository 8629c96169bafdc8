package api

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// unary bounds a call in time, contains its panics, maps its error and logs it at debug level.
func (s *Server) unary(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (response any, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			response, err = nil, s.panicked(ctx, info.FullMethod, fault)
		}
		err = asStatus(err)
		s.logCall(ctx, info.FullMethod, began, err)
	}()
	return handle(ctx, request)
}

// stream does the same for a stream, which has no time limit but ends when the server stops.
func (s *Server) stream(
	server any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) (err error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ss.Context())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-s.stopping:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	defer func() {
		if fault := recover(); fault != nil {
			err = s.panicked(ctx, info.FullMethod, fault)
		}
		// What a call returns once it is cancelled is the cancellation; the cause says why.
		if err != nil && errors.Is(context.Cause(ctx), errStopping) {
			err = errStopping
		}
		cancel(nil)
		<-watching
		err = asStatus(err)
		s.logCall(ss.Context(), info.FullMethod, began, err)
	}()
	return handle(server, &boundedStream{ServerStream: ss, ctx: ctx})
}

// boundedStream is a stream with the context that ends with the server. gRPC's interface leaves no other
// place for a context.
type boundedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (b *boundedStream) Context() context.Context { return b.ctx }

// panicked logs a panic with its stack: a person should act, though only this call has failed.
func (s *Server) panicked(ctx context.Context, method string, fault any) error {
	s.log.ErrorContext(ctx, "call panicked", "method", method, "panic", fault, "stack", string(debug.Stack()))
	return errPanic
}

func (s *Server) logCall(ctx context.Context, method string, began time.Time, err error) {
	if !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attributes := []any{"method", method, "code", status.Code(err).String(), "took", time.Since(began)}
	if p, ok := peer.FromContext(ctx); ok {
		attributes = append(attributes, "peer", p.Addr.String())
	}
	if err != nil {
		attributes = append(attributes, "err", err)
	}
	s.log.DebugContext(ctx, "call served", attributes...)
}
