package election

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLeaseIsGoneOnlyWhenEtcdDoesNotKnowIt(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name         string
		ttl, granted int64
		want         bool
	}{
		{name: "fresh", ttl: 10, granted: 10},
		{name: "in its last second", ttl: 0, granted: 10},
		{name: "expired, and with its keys still waiting to be revoked", ttl: -1, granted: 10},
		{name: "unknown", ttl: -1, granted: 0, want: true},
	}
	for _, c := range cases {
		if got := gone(&clientv3.LeaseTimeToLiveResponse{TTL: c.ttl, GrantedTTL: c.granted}); got != c.want {
			t.Errorf("%s: gone %t, want %t", c.name, got, c.want)
		}
	}
}
