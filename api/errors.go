package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/quorumcron/quorumcron/scheduler"
)

// ErrorDomain is the domain of the google.rpc.ErrorInfo in every error that a member returned.
const ErrorDomain = "quorumcron"

// errorTable maps what members return to gRPC codes, and is the only place that does. The first
// sentinel that an error wraps decides, so the order matters: an unknown outcome stays unknown
// whatever caused it, a passed deadline included.
var errorTable = []struct {
	err    error
	code   codes.Code
	reason string // of google.rpc.ErrorInfo: what programs compare
}{
	{scheduler.ErrUnknown, codes.Unknown, "OUTCOME_UNKNOWN"},
	{scheduler.ErrInvalid, codes.InvalidArgument, "INVALID"},
	{scheduler.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{scheduler.ErrConflict, codes.Aborted, "CONFLICT"},
	{scheduler.ErrPaused, codes.FailedPrecondition, "PAUSED"},
	{scheduler.ErrEnded, codes.FailedPrecondition, "ENDED"},
	{errOtherMember, codes.FailedPrecondition, "OTHER_MEMBER"},
	{scheduler.ErrNoRoom, codes.ResourceExhausted, "ETCD_SPACE"},
	{scheduler.ErrExhausted, codes.ResourceExhausted, "LIMIT_REACHED"},
	{scheduler.ErrUnavailable, codes.Unavailable, "UNAVAILABLE"},
	{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE"},
	{context.Canceled, codes.Canceled, "CANCELED"},
}

var (
	// errOtherMember: the call is meant for another member than the one that serves it.
	errOtherMember = errors.New("other member")
	// errStopping ends streams when the server stops.
	errStopping = fmt.Errorf("%w: the member stops", scheduler.ErrUnavailable)
	// errPanic stands for a panic in a call; the value and the stack are in the member's log.
	errPanic = errors.New("internal fault; the member's log has it")
)

// requestError is the error of a request that has an id, which the caller needs to repeat it.
type requestError struct {
	err       error
	requestID string
}

func (e *requestError) Error() string {
	if errors.Is(e.err, scheduler.ErrUnknown) {
		return fmt.Sprintf("%v; repeat it with request id %s", e.err, e.requestID)
	}
	return e.err.Error()
}

func (e *requestError) Unwrap() error { return e.err }

// asStatus turns an error of a call into what goes over the wire.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, row := range errorTable {
		if errors.Is(err, row.err) {
			return detailed(status.New(row.code, err.Error()), row.reason, err)
		}
	}
	// Only a status that is the error itself was made by gRPC or its services. One that is wrapped comes
	// from a connection of the member, to etcd say, and says nothing about this call.
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok { //nolint:errorlint // as said above
		return err
	}
	return status.Error(codes.Internal, err.Error())
}

// detailed adds the machine-readable parts.
func detailed(s *status.Status, reason string, err error) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: ErrorDomain}}
	var fields scheduler.FieldErrors
	if errors.As(err, &fields) {
		details = append(details, badRequest(fields))
	}
	var request *requestError
	if errors.As(err, &request) {
		details = append(details, &errdetails.RequestInfo{RequestId: request.requestID})
	}
	full, detailErr := s.WithDetails(details...)
	if detailErr != nil { // only for a message that does not marshal: the bare status is better than none
		return s.Err()
	}
	return full.Err()
}

// badRequest has one violation for each wrong field: what was given, what is wrong with it, what to do.
func badRequest(fields scheduler.FieldErrors) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, f := range fields {
		description := f.Problem
		if f.Value != "" && !strings.Contains(f.Problem, f.Value) {
			description = fmt.Sprintf("%.80q %s", f.Value, f.Problem)
		}
		if f.Remedy != "" {
			description += " (" + f.Remedy + ")"
		}
		b.FieldViolations = append(b.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: f.Field, Description: description,
		})
	}
	return b
}
