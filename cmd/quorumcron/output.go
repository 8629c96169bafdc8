package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// format is the form of a result.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value: what the help shows.
func (f *format) Type() string { return "table|json|yaml" }

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch format(s) {
	case formatTable, formatJSON, formatYAML:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("must be table, json or yaml")
}

// addOutput gives a command -o.
func addOutput(cmd *cobra.Command, f *format) {
	*f = formatTable
	cmd.Flags().VarP(f, "output", "o", "form of the result")
	// The names are fixed, so registering them cannot fail.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// print writes a result: the message as JSON or YAML, or what table makes of it.
func (c *console) print(f format, m proto.Message, table func(w io.Writer)) error {
	if f == formatTable {
		return c.printTable(table)
	}
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.printJSON(f, text)
}

// printValue writes a result that is no message of the API. It is small, and made of strings and numbers.
func (c *console) printValue(f format, value any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // "<stdin>" is to be read by people.
	if err := e.Encode(value); err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	return c.printJSON(f, bytes.TrimSpace(b.Bytes()))
}

// printJSON writes JSON, indented, or as YAML with the same fields in the same order.
func (c *console) printJSON(f format, text []byte) error {
	var out []byte
	if f == formatYAML {
		converted, err := yamlOf(text)
		if err != nil {
			return err
		}
		out = converted
	} else {
		// protojson puts spaces where it likes, so that nobody compares its bytes. Our output is compared.
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		b.WriteByte('\n')
		out = b.Bytes()
	}
	_, err := c.out.Write(out)
	return err
}

// printTable lays out what fill writes: cells end with a tab, rows with a newline.
func (c *console) printTable(fill func(w io.Writer)) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fill(w)
	return w.Flush()
}

// row writes the cells of one row. Empty ones at its end are left out: they would become blanks.
func row(w io.Writer, cells ...string) {
	for len(cells) > 1 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// lines are the lines of a text that others have written, such as a handler's error, fit for a cell each: a tab
// would end the cell, and what moves a terminal's cursor could show what is not so.
func lines(text string) []string {
	all := strings.Split(strings.TrimRight(strings.ToValidUTF8(text, "·"), "\n"), "\n")
	for i, line := range all {
		all[i] = strings.Map(printed, line)
	}
	return all
}

// onOneLine is such a text that belongs into one cell.
func onOneLine(text string) string { return strings.Join(lines(text), " ") }

// printed is what a terminal is shown for a character.
func printed(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case !unicode.IsPrint(r):
		return '·'
	}
	return r
}

// counted is a number with its noun: "1 member", "3 members".
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// orDash shows an empty cell.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// The colours of a cell. All have the same length, and in a coloured column every cell has one, the
// head too, because tabwriter counts the bytes that nobody sees.
const (
	plain  = "\x1b[39m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	reset  = "\x1b[0m"
)

// paint colours a cell, if the console may.
func (c *console) paint(colour, s string) string {
	if !c.colour() {
		return s
	}
	return colour + s + reset
}

// verdict is a verdict as a coloured word; a run without one is running.
func (c *console) verdict(v string) string {
	switch v {
	case "":
		return c.paint(plain, "running")
	case "SUCCEEDED":
		return c.paint(green, v)
	case "CANCELED", "SKIPPED", "MISSED":
		return c.paint(yellow, v)
	default:
		return c.paint(red, v)
	}
}
