package election

import (
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapToSlog returns a zap logger that writes to slog at debug level, with the level the client
// library gave it as an attribute.
func zapToSlog(logger *slog.Logger) *zap.Logger {
	if logger == nil {
		return zap.NewNop()
	}
	return zap.New(&slogCore{logger: logger})
}

// slogCore is a zapcore.Core on top of slog.
type slogCore struct{ logger *slog.Logger }

// Enabled implements zapcore.LevelEnabler. The library's own debug lines are left out: there is one
// for every call.
func (c *slogCore) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

// With implements zapcore.Core.
func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{logger: c.logger.With(attributes(fields)...)}
}

// Check implements zapcore.Core.
func (c *slogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c *slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	args := append([]any{slog.String("said", entry.Message), slog.String("said_at", entry.Level.String())}, attributes(fields)...)
	c.logger.Debug("etcd client spoke", args...)
	return nil
}

// Sync implements zapcore.Core.
func (c *slogCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	encoded := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoded)
	}
	args := make([]any, 0, len(fields))
	for _, field := range fields {
		if value, ok := encoded.Fields[field.Key]; ok {
			args = append(args, slog.Any(field.Key, value))
		}
	}
	return args
}
