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

// limit is how long one process may take: each test takes seconds, but the machine may be busy.
const limit = 3 * time.Minute

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

// test runs tests of one package with a cut, "" for none. The error is that of the process.
func (b *binaries) test(ctx context.Context, pkg, pattern, cut string) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	test := exec.CommandContext(ctx, b.path(pkg), "-test.run", pattern, "-test.v", "-test.count=1", "-test.short")
	test.Dir = filepath.Join(b.root, pkg)
	test.Env = append(os.Environ(), sabotage.Variable+"="+cut)
	var text bytes.Buffer
	test.Stdout, test.Stderr = &text, &text
	err = test.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return text.String(), err
}

// untouched demands that every test is there and passes with nothing cut. Tests with one parent share a
// process.
func (b *binaries) untouched(ctx context.Context, rows []row) error {
	type family struct{ pkg, parent string }
	names := map[family][]string{}
	for _, r := range rows {
		parent, name := r.split()
		f := family{r.pkg, parent}
		if !slices.Contains(names[f], name) {
			names[f] = append(names[f], name)
		}
	}
	checked := map[family]bool{}
	for _, r := range rows {
		parent, _ := r.split()
		f := family{r.pkg, parent}
		if checked[f] {
			continue
		}
		checked[f] = true
		output, err := b.test(ctx, f.pkg, pattern(parent, names[f]...), "")
		if err != nil {
			return fmt.Errorf("with nothing cut, the tests of %s fail: %w\n%s", f.pkg, err, output)
		}
		for _, name := range names[f] {
			if !strings.Contains(output, "--- PASS: "+parent+name+" (") {
				return fmt.Errorf("there is no test %s%s in %s:\n%s", parent, name, f.pkg, output)
			}
		}
	}
	return nil
}

// caught runs the test of a row with its cut made, and demands that it fails as the row says.
func (b *binaries) caught(ctx context.Context, r row) (took time.Duration, err error) {
	began := time.Now()
	parent, name := r.split()
	output, err := b.test(ctx, r.pkg, pattern(parent, name), r.cut)
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
