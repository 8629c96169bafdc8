package main

import (
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/quorumcron/quorumcron/scheduler/cron"
)

// Stamped by the build with -ldflags "-X main.version=… -X main.commit=…", see the Makefile.
var version, commit string

// build says what this program was made of.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Etcd    string `json:"etcd"`   // version of the etcd client
	TZData  string `json:"tzdata"` // version of the embedded zone data
}

// thisBuild falls back to what Go noted, for `go install …@version`.
func thisBuild() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version(), TZData: cron.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = "0.1.0-dev"
		if v := info.Main.Version; v != "" && v != "(devel)" {
			b.Version = v
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && b.Commit == "" {
			b.Commit = s.Value
		}
	}
	for _, dep := range info.Deps {
		if dep.Path == "go.etcd.io/etcd/client/v3" {
			b.Etcd = dep.Version
		}
	}
	return b
}

func newVersion(c *console) *cobra.Command {
	var output format
	cmd := &cobra.Command{
		Use: "version", Short: "Show what this program was made of", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if output == formatTable {
				return c.printTable(func(w io.Writer) {
					row(w, "quorumcron", b.Version)
					row(w, "commit", orDash(b.Commit))
					row(w, "go", b.Go)
					row(w, "etcd client", orDash(b.Etcd))
					row(w, "tzdata", b.TZData)
				})
			}
			return c.printValue(output, b)
		},
	}
	addOutput(cmd, &output)
	return cmd
}
