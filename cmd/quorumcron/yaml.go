package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// yamlOf writes JSON as YAML: the same fields in the same order. It quotes whatever some parser could
// take for something else than a string (1e3, yes, 12:30), which libraries leave bare, and writes text
// of several lines as such.
func yamlOf(text []byte) ([]byte, error) {
	w := &yamlWriter{
		decoder: json.NewDecoder(bytes.NewReader(text)),
		bare:    regexp.MustCompile(`^([A-Za-z/]([A-Za-z0-9 _./+-]*[A-Za-z0-9_./+-])?|([0-9]+(h|m|s|ms))+)$`),
	}
	w.decoder.UseNumber()
	if err := w.value(0, ""); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return bytes.TrimLeft(w.out.Bytes(), "\n "), nil
}

type yamlWriter struct {
	decoder *json.Decoder
	bare    *regexp.Regexp // words, paths, names and durations
	out     bytes.Buffer
}

// value writes the next value behind what stands on its line: " " after a key or a dash. Items of a list
// begin on the dash's own line.
func (w *yamlWriter) value(depth int, after string) error {
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		return w.inside(token, depth, after)
	case string:
		w.out.WriteString(after + w.scalar(token, depth) + "\n")
	case nil:
		w.out.WriteString(after + "null\n")
	default:
		fmt.Fprintf(&w.out, "%s%v\n", after, token)
	}
	return nil
}

func (w *yamlWriter) inside(open json.Delim, depth int, after string) error {
	if !w.decoder.More() {
		w.out.WriteString(after + map[json.Delim]string{'{': "{}", '[': "[]"}[open] + "\n")
		_, err := w.decoder.Token() // its end
		return err
	}
	indent := strings.Repeat("  ", depth)
	onDash := strings.HasSuffix(after, "- ")
	if !onDash {
		w.out.WriteString("\n")
	}
	for n := 0; w.decoder.More(); n++ {
		prefix := indent
		if n == 0 && onDash {
			prefix = after
		}
		if open == '[' {
			if err := w.value(depth+1, prefix+"- "); err != nil {
				return err
			}
			continue
		}
		key, err := w.decoder.Token()
		if err != nil {
			return err
		}
		w.out.WriteString(prefix + w.line(fmt.Sprint(key)) + ":")
		if err := w.value(depth+1, " "); err != nil {
			return err
		}
	}
	_, err := w.decoder.Token() // its end
	return err
}

// scalar is a string on one line, or as a block of several.
func (w *yamlWriter) scalar(s string, depth int) string {
	block := strings.TrimSuffix(s, "\n")
	if !strings.Contains(s, "\n") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.HasSuffix(block, "\n") ||
		strings.IndexFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) >= 0 {
		return w.line(s)
	}
	mark := "|"
	if block == s {
		mark = "|-"
	}
	return strings.ReplaceAll(mark+"\n"+block, "\n", "\n"+strings.Repeat("  ", depth))
}

// line is a string on one line: bare if nothing can mistake it, else in quotes.
func (w *yamlWriter) line(s string) string {
	if w.bare.MatchString(s) && !reserved(s) {
		return s
	}
	// What JSON calls a string is one in YAML too, but for the characters that YAML does not print.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // A string can always be encoded, and a buffer written.
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if r >= 0x7F && r < 0xA0 || r == '\uFEFF' {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// reserved says whether some version of YAML reads a word as something else than a string.
func reserved(s string) bool {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan", "infinity":
		return true
	}
	return false
}
