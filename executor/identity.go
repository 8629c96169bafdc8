package executor

import (
	"context"
	"strconv"
	"time"

	"github.com/quorumcron/quorumcron/scheduler"
)

// Identity says which attempt of which firing is running. Handlers get it as a value, commands in
// their environment. Firing, Attempt and Token together never repeat.
type Identity struct {
	Job     scheduler.JobName
	Firing  scheduler.Firing
	Attempt int   // from 1
	Token   int64 // fencing token: it only grows per job
	Member  string
	Part    int // from 0
	Parts   int // at least 1
	// Payload is the handler's, as the job gives it; commands have none.
	Payload string
}

func (a Attempt) identity() Identity {
	id := Identity{Job: a.Job, Firing: a.Firing, Attempt: a.Number, Token: a.Token, Member: a.Member, Part: a.Part, Parts: a.Parts}
	if a.Run.Handler != nil {
		id.Payload = a.Run.Handler.Payload
	}
	return id
}

// EnvPrefix begins the names of the identity in the environment. Commands do not get the node's own
// variables of that prefix, which may hold its secrets.
const EnvPrefix = "QUORUMCRON_"

// identityNames is the one table of what an attempt is told about itself. Every carrier derives its
// names from it: the environment has EnvPrefix + name.
var identityNames = []struct {
	name  string
	value func(Identity) string
}{
	{"NAMESPACE", func(id Identity) string { return id.Job.Namespace }},
	{"JOB", func(id Identity) string { return id.Job.Name }},
	{"FIRING", func(id Identity) string { return id.Firing.String() }},
	{"INSTANT", func(id Identity) string { return instantText(id.Firing) }},
	{"ATTEMPT", func(id Identity) string { return strconv.Itoa(id.Attempt) }},
	{"TOKEN", func(id Identity) string { return strconv.FormatInt(id.Token, 10) }},
	{"MEMBER", func(id Identity) string { return id.Member }},
	{"PART", func(id Identity) string { return strconv.Itoa(id.Part) }},
	{"PARTS", func(id Identity) string { return strconv.Itoa(id.Parts) }},
}

// instantText is RFC 3339 in UTC; empty for a firing that has no instant.
func instantText(f scheduler.Firing) string {
	if f.Manual() {
		return ""
	}
	return f.Instant().Format(time.RFC3339)
}

// Environ is the identity as environment variables, in the order of the table.
func (id Identity) Environ() []string {
	env := make([]string, 0, len(identityNames))
	for _, n := range identityNames {
		env = append(env, EnvPrefix+n.name+"="+n.value(id))
	}
	return env
}

type identityKey struct{}

// IdentityFrom returns the identity of the attempt that the context belongs to, and whether there is
// one.
func IdentityFrom(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}
