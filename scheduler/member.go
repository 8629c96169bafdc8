package scheduler

import "strconv"

// ShardCount is the number of fixed shards. It can never change in a running cluster.
const ShardCount = 256

// Shard is the first byte of SHA-256(namespace/name); its string is two hex digits.
type Shard uint8

// Member is a live node as its member key describes it.
type Member struct {
	Name        string
	Incarnation int64 // the create revision of its key: raised by every join; an assignment names it
	Labels      map[string]string
	Handlers    []string // sorted
	GRPCAddress string   // where its admin API is reached; "" when it has none
	HTTPAddress string
	Capacity    int
	Draining    bool // takes no new shards, keeps claiming until another member owns each of its shards
	Version     string
	FormatMin   int64 // stored formats it can live with
	FormatMax   int64
	TZData      string
	BootID      string
	// CreateRevision is the create revision of its key; not stored. Older members sort first.
	CreateRevision int64
}

// ID is "name#incarnation": how an assignment names a member, so that a restarted process owns
// nothing until a new assignment names it.
func (m Member) ID() string {
	if cutIncarnation {
		return m.Name
	}
	return m.Name + "#" + strconv.FormatInt(m.Incarnation, 10)
}

// Pool is the members that may run a group of jobs: those with every label of the selector and, for
// handler jobs, the handler. Pools never change; their id is a hash of their content.
type Pool struct {
	ID       string
	Selector map[string]string
	Handler  string
}

// PoolAll is the id of the pool with the empty selector.
const PoolAll = "all"

// Assignment says which member owns each shard of one pool.
type Assignment struct {
	Pool    string
	Members []string // IDs, sorted by name; at most 255
	// Owners holds for each shard 1 + an index into Members; 0 means no owner.
	Owners [ShardCount]uint8
}
