package history_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quorumcron/quorumcron/chaos-tests/history"
)

// TestAHistoryIsKeptWhole: what is judged again is what was judged.
func TestAHistoryIsKeptWhole(t *testing.T) {
	t.Parallel()
	h := clean()
	h.Statuses = []history.Status{{At: at(3), Node: "n1", Dispatcher: "n2", ShardsOwned: 256, Unaccounted: 1}}
	h.Changes = []history.Change{{Op: history.Apply, Job: "j", Invoked: at(1), Result: history.OK, Spec: history.Spec{Period: time.Second}}}
	h.Etcd = &history.EtcdLog{Prefix: "/p/", Events: []history.EtcdEvent{{Revision: 4, Key: "k", Value: []byte{0, 255}}}, Seen: 4, Head: 4}
	var file bytes.Buffer
	if err := h.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := history.ReadHistory(&file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, again, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(history.History{})); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}
