package devetcd

import (
	"log/slog"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// bridge is a zap core that writes to slog. Etcd takes itself for the main thing: it is not here, so
// each level comes out one lower, and what it reports of its own stop as errors not at all.
type bridge struct {
	to     *slog.Logger
	fields []zapcore.Field
	silent *atomic.Bool // shared by all that derive from one
}

func newBridge(to *slog.Logger) *bridge {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return &bridge{to: to, silent: &atomic.Bool{}}
}

// quiet drops everything from now on: the server is being stopped.
func (b *bridge) quiet() { b.silent.Store(true) }

// expected are warnings about what we do on purpose, or what is always so at a first start.
var expected = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
	"Failed to detect schema version":                                                      true,
	"failed to update storage version":                                                     true,
}

// Enabled implements zapcore.LevelEnabler. Etcd's debug level has a line for each key put: never.
// Levels beyond error are always written: a panic or an exit follows.
func (b *bridge) Enabled(l zapcore.Level) bool {
	return l > zapcore.ErrorLevel || l >= zapcore.InfoLevel && !b.silent.Load()
}

// With implements zapcore.Core.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{to: b.to, silent: b.silent, fields: append(b.fields[:len(b.fields):len(b.fields)], fields...)}
}

// Check implements zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) && !expected[e.Message] {
		return c.AddCore(e, b)
	}
	return c
}

// Write implements zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	all := zapcore.NewMapObjectEncoder()
	for _, f := range append(b.fields[:len(b.fields):len(b.fields)], fields...) {
		f.AddTo(all)
	}
	attrs := make([]any, 0, len(all.Fields))
	for k, v := range all.Fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	switch {
	case e.Level <= zapcore.InfoLevel:
		b.to.Debug(e.Message, attrs...)
	case e.Level == zapcore.WarnLevel:
		b.to.Info(e.Message, attrs...)
	case e.Level == zapcore.ErrorLevel:
		b.to.Warn(e.Message, attrs...)
	default:
		b.to.Error(e.Message, attrs...)
	}
	return nil
}

// Sync implements zapcore.Core.
func (b *bridge) Sync() error { return nil }
