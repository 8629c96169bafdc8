package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorumcron/quorumcron/internal/sabotage"
)

// limit is how long one test may take: each takes seconds, or a minute with real processes, but the
// machine may be busy.
const limit = 4 * time.Minute

// binaries are the test binaries of some packages, built with the tag sabotage.
type binaries struct {
	root   string // of the module
	folder string
}

// build builds the tests that the rows name.
func build(ctx context.Context, rows []row) (*binaries, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module: %w", err)
	}
	folder, err := os.MkdirTemp("", "quorumcron-sabotage-")
	if err != nil {
		return nil, err
	}
	b := &binaries{root: strings.TrimSpace(string(root)), folder: folder}
	for _, pkg := range packages(rows) {
		build := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "sabotage", "-o", b.path(pkg), "./"+pkg)
		build.Dir = b.root
		if text, err := build.CombinedOutput(); err != nil {
			b.remove()
			return nil, fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, text)
		}
	}
	return b, nil
}

func packages(rows []row) []string {
	var list []string
	for _, r := range rows {
		list = append(list, r.pkg)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (b *binaries) path(pkg string) string {
	return filepath.Join(b.folder, strings.ReplaceAll(pkg, "/", "-")+".test")
}

func (b *binaries) remove() { _ = os.RemoveAll(b.folder) }

// family is what tests that run in one process have in common.
type family struct {
	pkg, parent string
	slow        bool
}

func (r row) family() (f family, name string) {
	parent, name := r.split()
	return family{r.pkg, parent, r.slow}, name
}

// test runs tests of one family with a cut, "" for none. The error is that of the process.
func (b *binaries) test(ctx context.Context, f family, names []string, cut string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(names))*limit)
	defer cancel()
	args := []string{"-test.run", pattern(f.parent, names...), "-test.v", "-test.count=1"}
	if !f.slow {
		args = append(args, "-test.short")
	}
	test := exec.CommandContext(ctx, b.path(f.pkg), args...)
	test.Dir = filepath.Join(b.root, f.pkg)
	test.Env = append(os.Environ(), sabotage.Variable+"="+cut)
	var text bytes.Buffer
	test.Stdout, test.Stderr = &text, &text
	err = test.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return text.String(), err
}

// untouched demands that every test is there and passes with nothing cut.
func (b *binaries) untouched(ctx context.Context, rows []row) error {
	names := map[family][]string{}
	var families []family
	for _, r := range rows {
		f, name := r.family()
		if names[f] == nil {
			families = append(families, f)
		}
		if !slices.Contains(names[f], name) {
			names[f] = append(names[f], name)
		}
	}
	for _, f := range families {
		output, err := b.test(ctx, f, names[f], "")
		if err != nil {
			return fmt.Errorf("with nothing cut, the tests of %s fail: %w\n%s", f.pkg, err, output)
		}
		for _, name := range names[f] {
			if !strings.Contains(output, "--- PASS: "+f.parent+name+" (") {
				return fmt.Errorf("there is no test %s%s in %s:\n%s", f.parent, name, f.pkg, output)
			}
		}
	}
	return nil
}

// caught runs the test of a row with its cut made, and demands that it fails as the row says.
func (b *binaries) caught(ctx context.Context, r row) (took time.Duration, err error) {
	began := time.Now()
	f, name := r.family()
	output, err := b.test(ctx, f, []string{name}, r.cut)
	took = time.Since(began)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return took, fmt.Errorf("%s of %s passes without it", r.test, r.pkg)
	case !errors.As(err, &exit):
		return took, fmt.Errorf("%s of %s: %w\n%s", r.test, r.pkg, err, output)
	case !strings.Contains(output, "--- FAIL: "+r.test+" (") || !strings.Contains(output, r.says):
		return took, fmt.Errorf("%s of %s fails, but does not say %q:\n%s", r.test, r.pkg, r.says, output)
	}
	return took, nil
}

// pattern is what -run takes for tests below one parent, and for no others.
func pattern(parent string, names ...string) string {
	return strings.ReplaceAll("^"+parent, "/", "$/^") + "(" + strings.Join(names, "|") + ")$"
}
