package history

import (
	"encoding/json"
	"io"
	"time"
)

// kept is a history in a file. The fields of a Status that the cluster does not tell are beside it.
type kept struct {
	History
	StatusAt   []time.Time
	StatusNode []string
}

// Write keeps a history, so that it can be judged again: a checker that has changed is held against runs
// that are over. Zones of specs are not kept.
func (h History) Write(w io.Writer) error {
	k := kept{History: h}
	for _, s := range h.Statuses {
		k.StatusAt, k.StatusNode = append(k.StatusAt, s.At), append(k.StatusNode, s.Node)
	}
	return json.NewEncoder(w).Encode(k)
}

// ReadHistory is a history that Write has kept.
func ReadHistory(r io.Reader) (History, error) {
	var k kept
	if err := json.NewDecoder(r).Decode(&k); err != nil {
		return History{}, err
	}
	for i := range k.Statuses {
		k.Statuses[i].At, k.Statuses[i].Node = k.StatusAt[i], k.StatusNode[i]
	}
	for i := range k.Changes {
		k.Changes[i].Spec.Zone = nil
	}
	return k.History, nil
}
