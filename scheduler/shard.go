package scheduler

import (
	"crypto/sha256"
	"encoding/hex"
)

// ShardOf is the fixed shard of a job: the first byte of SHA-256("namespace/name"). It is part of the
// job's keys, and can never change in a running cluster.
func ShardOf(n JobName) Shard {
	sum := sha256.Sum256([]byte(n.String()))
	return Shard(sum[0])
}

// String is two hex digits, as in keys.
func (s Shard) String() string { return hex.EncodeToString([]byte{byte(s)}) }
