package main

import (
	"encoding/json"
	"reflect"
	"testing"

	goccy "github.com/goccy/go-yaml"
)

// TestYAMLSaysWhatJSONSaid reads back what was written.
func TestYAMLSaysWhatJSONSaid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"a":"x","b":1,"c":true,"d":null,"e":{},"f":[],"g":[1,"2",{"h":"i","j":[["k"],[]]},{"l":{"m":"n"}}],"o":{"p":{"q":["r"]}}}`,
		`{"a":[{"b":[{"c":"d\ne\n"},"f\ng"]}],"h":{"i":"j\n  k\n\nl"}}`,
		`[]`, `{}`, `[{"a":1},{"b":2}]`,
	} {
		written, err := yamlOf([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		asJSON, err := goccy.YAMLToJSON(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if err := json.Unmarshal(asJSON, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nbecame %s\nthrough\n%s", text, asJSON, written)
		}
	}
}

// TestYAMLStringsStayStrings writes what parsers are known to take for numbers, dates and the like.
func TestYAMLStringsStayStrings(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"1e3", "yes", "no", "ON", "off", "null", "~", "0x1f", "1_000", ".5", "2026-01-01", "2026-01-01T00:00:00Z", "12:30", "true", "- a", "a: b", "#x",
		"*a", "&a", "!a", "%a", "@a", "`a`", " x", "x ", "", "a\nb", "a\tb", "\x1b[0m", "010", ".inf", ".nan", "-", "?", "[a]", "{a}", "a #b", "'", `"`, `\`,
		"=", "<<", "é", "😀", "0 2 * * *", "y", "n", "1.", "+1", "1e+3", "a:", "\u2028", "\u0085", "\x7f", "\ufeff", "line\r\n", "  \n x\n", "x\n\n", "\n",
		"a\n b\n", "#!/bin/sh\necho hi\n", "plain text", "/usr/bin/x", "node-a", "a\n---\nb\n", "---",
	} {
		text, err := json.Marshal(map[string]any{s: []string{s}})
		if err != nil {
			t.Fatal(err)
		}
		written, err := yamlOf(text)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string][]any
		if err := goccy.Unmarshal(written, &got); err != nil || len(got[s]) != 1 || got[s][0] != s {
			t.Errorf("%q became %#v, %v through\n%s", s, got, err, written)
		}
	}
	// The library reads these as strings; other parsers would not if they were bare.
	written, err := yamlOf([]byte(`{"name":"1e3","on":"1:30","every":"15m","each":"12e"}`))
	if want := "name: \"1e3\"\n\"on\": \"1:30\"\nevery: 15m\neach: \"12e\"\n"; err != nil || string(written) != want {
		t.Errorf("got %s, %v, want %s", written, err, want)
	}
}
