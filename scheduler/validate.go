package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// Limits of a definition. Each bounds what one job can cost the cluster (G10).
const (
	MaxNameBytes       = 253
	MaxLabels          = 64
	MaxLabelKeyBytes   = 128
	MaxLabelBytes      = 256
	MaxArgs            = 256
	MaxEnv             = 256
	MaxCommandBytes    = 128 << 10 // arguments and environment together
	MaxPayloadBytes    = 64 << 10
	MaxDefinitionBytes = 256 << 10 // all text of the definition together
	MaxHistory         = 100
	MaxAttempts        = 100
	MaxCatchUp         = 10_000
	MaxJitter          = 24 * time.Hour
	maxShownBytes      = 64 // of a refused value, repeated in the error
	envPrefix          = "QUORUMCRON_"
	identityCharacters = "abcdefghijklmnopqrstuvwxyz0123456789._-"
)

// Validate says everything that is wrong with a definition, in the order of the job file; nil if it may
// be stored. Defaults must have been filled in.
func (j Job) Validate() []FieldError {
	var c checker
	c.name("name", j.Name.Name)
	c.name("namespace", j.Name.Namespace)
	c.labels("labels", j.Labels)
	c.schedule(j.Schedule)
	c.run(j.Run)
	c.target(j.Target)
	c.policy(j.Policy)
	c.between("history.limit", j.HistoryLimit, 1, MaxHistory)
	if n := j.textBytes(); n > MaxDefinitionBytes {
		c.wrong("job", strconv.Itoa(n), fmt.Sprintf("the definition has %d bytes, more than %d", n, MaxDefinitionBytes),
			"keep large data elsewhere and pass its address")
	}
	return c.found
}

// checker gathers what is wrong.
type checker struct{ found []FieldError }

func (c *checker) wrong(field, value, problem, remedy string) {
	if len(value) > maxShownBytes {
		value = strings.ToValidUTF8(value[:maxShownBytes], "") + "…"
	}
	c.found = append(c.found, FieldError{Field: field, Value: value, Problem: problem, Remedy: remedy})
}

func (c *checker) name(field, value string) {
	const remedy = "use lower-case letters, digits, '.', '_' and '-'; begin and end with a letter or digit"
	switch {
	case value == "":
		c.wrong(field, "", "is missing", remedy)
	case len(value) > MaxNameBytes:
		c.wrong(field, value, fmt.Sprintf("has %d bytes, more than %d", len(value), MaxNameBytes), "choose a shorter name")
	case strings.IndexFunc(value, notIdentity) >= 0 ||
		strings.ContainsAny(value[:1], "._-") || strings.ContainsAny(value[len(value)-1:], "._-"):
		c.wrong(field, value, "is not a name", remedy)
	}
}

func notIdentity(r rune) bool { return !strings.ContainsRune(identityCharacters, r) }

// CheckLabels says what is wrong with the labels of a member, named field: those that it accepts are the ones
// that a job's selector can ask for.
func CheckLabels(field string, labels map[string]string) []FieldError {
	var c checker
	c.labels(field, labels)
	return c.found
}

// NamesHandler says whether a job may name a handler so: 1 to MaxLabelKeyBytes letters, digits, '.', '_', '/'
// and '-'.
func NamesHandler(name string) bool {
	return name != "" && len(name) <= MaxLabelKeyBytes && strings.IndexFunc(name, notLabelKey) < 0
}

func (c *checker) labels(field string, labels map[string]string) {
	if len(labels) > MaxLabels {
		c.wrong(field, strconv.Itoa(len(labels)), fmt.Sprintf("has more than %d entries", MaxLabels), "remove some")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		at, value := field+"."+key, labels[key]
		switch {
		case key == "" || len(key) > MaxLabelKeyBytes || strings.IndexFunc(key, notLabelKey) >= 0:
			c.wrong(at, key, "is not a label key",
				fmt.Sprintf("use 1 to %d letters, digits, '.', '_', '/' and '-'", MaxLabelKeyBytes))
		case len(value) > MaxLabelBytes || !printable(value):
			c.wrong(at, value, "is not a label value", fmt.Sprintf("use at most %d bytes of printable text", MaxLabelBytes))
		}
	}
}

func notLabelKey(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/-", r))
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

func (c *checker) schedule(s Schedule) {
	if _, err := cron.Compile(s.Spec()); err != nil {
		c.cronErrors("schedule.", err)
	}
	if s.Jitter < 0 || s.Jitter > MaxJitter {
		c.wrong("schedule.jitter", s.Jitter.String(), "is out of range", "use 0s to 24h")
	}
	c.exclude(s.Exclude)
}

func (c *checker) run(e Executable) {
	switch {
	case e.Command == nil && e.Handler == nil:
		c.wrong("run", "", "says nothing to run", "give it command or handler")
	case e.Command != nil && e.Handler != nil:
		c.wrong("run", "", "says more than one thing to run", "give it command or handler")
	}
	if e.Command != nil {
		c.command(*e.Command)
	}
	if h := e.Handler; h != nil {
		if !NamesHandler(h.Name) {
			c.wrong("run.handler.name", h.Name, "is not a handler's name",
				fmt.Sprintf("use 1 to %d letters, digits, '.', '_', '/' and '-', as it was registered", MaxLabelKeyBytes))
		}
		if len(h.Payload) > MaxPayloadBytes {
			c.wrong("run.handler.payload", strconv.Itoa(len(h.Payload)), fmt.Sprintf("has more than %d bytes", MaxPayloadBytes),
				"keep large data elsewhere and pass its address")
		}
	}
}

func (c *checker) command(cmd Command) {
	const field = "run.command"
	if len(cmd.Args) == 0 || cmd.Args[0] == "" {
		c.wrong(field+".args", "", "names no program", `write for example ["/usr/local/bin/report", "--daily"]`)
	}
	if len(cmd.Args) > MaxArgs {
		c.wrong(field+".args", strconv.Itoa(len(cmd.Args)), fmt.Sprintf("has more than %d entries", MaxArgs), "put them into a file")
	}
	size := 0
	for i, arg := range cmd.Args {
		size += len(arg)
		c.noZero(fmt.Sprintf("%s.args[%d]", field, i), arg)
	}
	if len(cmd.Env) > MaxEnv {
		c.wrong(field+".env", strconv.Itoa(len(cmd.Env)), fmt.Sprintf("has more than %d entries", MaxEnv), "put them into a file")
	}
	for _, key := range slices.Sorted(maps.Keys(cmd.Env)) {
		at := field + ".env." + key
		size += len(key) + len(cmd.Env[key])
		switch {
		case key == "" || strings.ContainsAny(key, "=\x00") || !printable(key):
			c.wrong(at, key, "is not the name of a variable", "use letters, digits and '_'")
		case strings.HasPrefix(key, envPrefix):
			c.wrong(at, key, "is reserved for the identity of the run", "choose a name that does not begin with "+envPrefix)
		}
		c.noZero(at, cmd.Env[key])
	}
	if size > MaxCommandBytes {
		c.wrong(field, strconv.Itoa(size), fmt.Sprintf("has more than %d bytes of arguments and environment", MaxCommandBytes),
			"put them into a file")
	}
	if cmd.Dir != "" && !strings.HasPrefix(cmd.Dir, "/") {
		c.wrong(field+".dir", cmd.Dir, "is not an absolute path", "begin it with /, or leave it out for a scratch directory")
	}
	c.noZero(field+".dir", cmd.Dir)
	if len(cmd.User) > MaxLabelKeyBytes || !printable(cmd.User) || strings.ContainsAny(cmd.User, " :/") {
		c.wrong(field+".user", cmd.User, "is not a user name", "use the name of a user of the members")
	}
}

// noZero refuses what no operating system can pass on.
func (c *checker) noZero(field, value string) {
	if strings.Contains(value, "\x00") {
		c.wrong(field, strings.ReplaceAll(value, "\x00", "␀"), "has a zero byte in it", "remove it")
	}
}

func (c *checker) target(t Target) {
	c.labels("target.selector", t.Selector)
	if len(t.Prefer) > 0 {
		c.wrong("target.prefer", strings.Join(t.Prefer, ","), "is not supported yet", "leave it out")
	}
	c.oneOf("target.mode", t.Mode, []string{modeOne}, []string{"all", "parts"})
}

func (c *checker) policy(p Policy) {
	c.oneOf("policy.overlap", string(p.Overlap), []string{string(OverlapSkip)},
		[]string{"buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"})
	c.oneOf("policy.catchUp.mode", string(p.CatchUp.Mode), []string{string(CatchUpLatest), string(CatchUpNone)}, []string{"all"})
	if p.CatchUp.Window <= 0 {
		c.wrong("policy.catchUp.window", p.CatchUp.Window.String(), "is not positive", "use for example 24h")
	}
	c.between("policy.catchUp.max", p.CatchUp.Max, 1, MaxCatchUp)
	c.oneOf("policy.onLost", string(p.OnLost), []string{string(OnLostFail), string(OnLostRetry)}, nil)
	c.oneOf("policy.onSessionLost", string(p.OnSessionLost), []string{string(SessionLostKill), string(SessionLostFinish)}, nil)
	c.between("policy.retry.maxAttempts", p.Retry.MaxAttempts, 1, MaxAttempts)
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"policy.timeout", p.Timeout}, {"policy.startDeadline", p.StartDeadline}} {
		if d.value < 0 {
			c.wrong(d.field, d.value.String(), "is negative", "use for example 10m, or leave it out for none")
		}
	}
}

func (c *checker) between(field string, value, least, most int) {
	if value < least || value > most {
		c.wrong(field, strconv.Itoa(value), "is out of range", fmt.Sprintf("use %d to %d", least, most))
	}
}

// oneOf refuses words that are unknown, and says of those that are planned that they are not there yet.
func (c *checker) oneOf(field, value string, known, later []string) {
	switch {
	case slices.Contains(known, value):
	case slices.Contains(later, value):
		c.wrong(field, value, "is not supported yet", "use "+strings.Join(known, " or "))
	default:
		c.wrong(field, value, "is not one of its values", "use "+strings.Join(known, " or "))
	}
}

// textBytes is the size of all text in the definition: what can make a job large.
func (j Job) textBytes() int {
	n := len(j.Name.Name) + len(j.Name.Namespace) + len(j.Schedule.TimeZone) + 16*len(j.Schedule.At)
	for _, m := range []map[string]string{j.Labels, j.Target.Selector} {
		for key, value := range m {
			n += len(key) + len(value)
		}
	}
	for _, text := range slices.Concat(j.Schedule.Cron, j.Schedule.Exclude, j.Target.Prefer) {
		n += len(text)
	}
	if c := j.Run.Command; c != nil {
		n += len(c.Dir) + len(c.User)
		for _, arg := range c.Args {
			n += len(arg)
		}
		for key, value := range c.Env {
			n += len(key) + len(value)
		}
	}
	if h := j.Run.Handler; h != nil {
		n += len(h.Name) + len(h.Payload)
	}
	return n
}
