package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Paths that several rules name.
const (
	etcdClient = "go.etcd.io/etcd/client/v3"
	etcdAPI    = "go.etcd.io/etcd/api/v3"
	etcdServer = "go.etcd.io/etcd/server/v3"
)

// row is one row of the import table: what the code of a package may import beyond the standard
// library. An entry allows the folder or module it names and all below. Tests are free, but for
// the embedded server.
type row struct {
	pkg    string
	may    []string
	reason string
}

// anything allows every import.
const anything = "*"

// table is the import table of docs/architecture.md. A package without a row breaks the rule, a row
// without a package does not: rows are written first.
func table() []row {
	stored, v1 := "proto/quorumcron/stored", "proto/quorumcron/v1"
	etcd := []string{etcdClient, etcdAPI, "go.etcd.io/etcd/client/pkg/v3"}
	grpc, protobuf := "google.golang.org/grpc", "google.golang.org/protobuf"
	return []row{
		{"scheduler", []string{"scheduler/cron"}, "says what should happen; knows nothing of how"},
		{"scheduler/cron", []string{"github.com/robfig/cron/v3"}, "turns expressions and zones into instants; the parser is borrowed"},
		{"scheduler/sim", []string{"scheduler"}, "runs many members' decisions against a simulated world"},
		{"election", slices.Concat([]string{"scheduler", stored, protobuf, grpc, "go.uber.org/zap", "golang.org/x/sys"}, etcd),
			"holds rights under leases and proves them; a spoke"},
		{"store", slices.Concat([]string{"scheduler", stored, protobuf, grpc, "github.com/oklog/ulid/v2", "golang.org/x/sync"}, etcd),
			"reads, follows and changes the facts in etcd; a spoke"},
		{"executor", []string{"scheduler", "golang.org/x/sys"}, "runs one attempt and reports one result; a spoke"},
		{"node", slices.Concat([]string{"scheduler", "election", "store", "executor", "github.com/prometheus/client_golang",
			"github.com/oklog/ulid/v2", "golang.org/x/sync"}, etcd), "the hub: turns events into plans and plans into calls"},
		{"peer", []string{"scheduler", v1, grpc}, "talks to the other members; a spoke"},
		{"api", []string{"scheduler", v1, grpc, protobuf, "google.golang.org/genproto/googleapis/rpc", "github.com/prometheus/client_golang"},
			"translates and authorises, decides nothing; declares what it needs of a node"},
		{"proto", []string{protobuf, grpc}, "generated"},
		{"cmd/quorumcron", []string{anything}, "flags to config, construct, run, exit code"},
		{"internal/jobfile", []string{"scheduler", v1, protobuf, "github.com/goccy/go-yaml"}, "reads job files; the only user of the YAML library"},
		{"internal/archtest", nil, "must build when nothing else does"},
		{"internal/memetcd", slices.Concat([]string{grpc, protobuf, "go.uber.org/zap"}, etcd), "etcd in memory behind a real client; knows nothing of ours"},
		{"internal/devetcd", slices.Concat([]string{etcdServer, "go.uber.org/zap", grpc}, etcd), "starts and stops an embedded etcd; knows nothing of ours"},
		{"internal/itest", []string{anything}, "the one test binary that links the embedded server"},
		{"chaos-tests", slices.Concat([]string{v1, grpc, protobuf, "golang.org/x/sys"}, etcd), "breaks real processes from outside: it must not share code with what it judges"},
		{"chaos-tests/history", []string{stored, protobuf}, "judges; it reads what etcd holds by its documented form, and shares no rule with what wrote it"},
		{"chaos-tests/etcd", []string{"internal/devetcd"}, "the etcd process of those tests: a program of its own, so that their binary does not link the server"},
		{"internal/sabotage", nil, "names what a test build can go without"},
		{"internal/chaos", []string{"golang.org/x/sys"}, "reaches into the processes of a test build: clocks and fail points"},
		{"chaos-tests/sabotage", []string{"internal/sabotage"}, "shows that each protection is missed when it is taken out: builds the tests and runs them, no more"},
		{"chaos-tests/handlers", []string{"election", "executor", "node", "golang.org/x/sys"}, "the embedding program of those tests: a member with handlers"},
	}
}

// find returns the row for a package: its own, or that of the nearest folder above.
func find(table []row, pkg string) (row, bool) {
	best, found := row{}, false
	for _, r := range table {
		if within(pkg, r.pkg) && len(r.pkg) >= len(best.pkg) {
			best, found = r, true
		}
	}
	return best, found
}

func (r row) allows(imported string) bool {
	if standard(imported) || slices.Contains(r.may, anything) {
		return true
	}
	if p, ok := own(imported); ok {
		imported = p
		if within(p, r.pkg) && r.pkg != "scheduler" {
			return true // Sub-packages of one row are one responsibility.
		}
	}
	return slices.ContainsFunc(r.may, func(folder string) bool { return within(imported, folder) })
}

func checkImports(m *Module) []Breach {
	var found []Breach
	rows := table()
	for _, p := range m.Packages {
		r, ok := find(rows, p.Path)
		if !ok {
			found = append(found, Breach{p.Path, "has no row in the import table of internal/archtest: add one, with its reason and an ADR"})
			continue
		}
		for _, imported := range p.Imports(false) {
			if imported == "testing" {
				found = append(found, Breach{p.Path, "imports testing outside of tests; a suite that tests share is a package whose name ends in test"})
			}
			if !r.allows(imported) {
				what := fmt.Sprintf("imports %s; %s may import %s (%s)", imported, r.pkg, allowance(r), r.reason)
				found = append(found, Breach{p.Path, what})
			}
		}
	}
	return found
}

func allowance(r row) string {
	if len(r.may) == 0 {
		return "the standard library only"
	}
	return "the standard library, " + strings.Join(r.may, ", ")
}

// serverUsers may link the embedded server: cmd for `dev`, and the binaries of tests that need it.
var serverUsers = []string{"internal/devetcd", "internal/itest", "cmd/quorumcron", "chaos-tests/etcd"}

func checkEmbeddedServer(m *Module) []Breach {
	var found []Breach
	byPath := map[string]*Package{}
	for _, p := range m.Packages {
		byPath[p.Path] = p
	}
	for _, p := range m.Packages {
		if direct := serverImport(p); direct != "" {
			found = append(found, Breach{p.Path, direct})
			continue
		}
		if slices.ContainsFunc(serverUsers, func(user string) bool { return within(p.Path, user) }) {
			continue
		}
		if chain := chainToServer(byPath, p); chain != nil {
			what := "its test binary links the embedded server through " + strings.Join(chain, " → ") + "; move the test to internal/itest"
			found = append(found, Breach{p.Path, what})
		}
	}
	return found
}

// serverImport says what is wrong with what the package's own code imports of the server, or "".
func serverImport(p *Package) string {
	for _, imported := range p.Imports(false) {
		switch {
		case within(imported, etcdServer) && p.Path != "internal/devetcd":
			return "imports " + imported + "; only internal/devetcd does"
		case imported == modulePath+"/internal/devetcd" && !slices.Contains(serverUsers, p.Path):
			return "imports internal/devetcd; only cmd/quorumcron and tests do"
		}
	}
	return ""
}

// chainToServer returns how the package's test binary reaches the embedded server, or nil.
func chainToServer(byPath map[string]*Package, p *Package) []string {
	seen := map[string]bool{}
	var walk func(p *Package, withTests bool) []string
	walk = func(p *Package, withTests bool) []string {
		for _, imported := range p.Imports(withTests) {
			if within(imported, etcdServer) {
				return []string{p.Path, imported}
			}
			name, ok := own(imported)
			if !ok || seen[name] || byPath[name] == nil {
				continue
			}
			seen[name] = true
			if chain := walk(byPath[name], false); chain != nil {
				return append([]string{p.Path}, chain...)
			}
		}
		return nil
	}
	return walk(p, true)
}
