package api_test

import (
	"strings"
	"testing"

	"github.com/quorumcron/quorumcron/api"
)

func TestAddressesThatOthersReachAreRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		address  string
		insecure bool
		want     string // part of the error; "" means accepted
	}{
		{address: "127.0.0.1:7460"},
		{address: "127.9.9.9:0"},
		{address: "[::1]:7460"},
		{address: "localhost:7460"},
		{address: "0.0.0.0:7460", want: "--insecure"},
		{address: ":7460", want: "every interface"},
		{address: "[::]:7460", want: "--insecure"},
		{address: "10.0.0.7:7460", want: "10.0.0.7"},
		{address: "node-a.example:7460", want: "--insecure"},
		{address: "localhost.evil.example:7460", want: "--insecure"},
		{address: "0.0.0.0:7460", insecure: true},
		{address: ":7460", insecure: true},
		{address: "127.0.0.1", want: "host:port"},
		{address: "127.0.0.1", insecure: true, want: "host:port"},
		{address: "", want: "host:port"},
	} {
		err := api.CheckListen("--grpc-addr", row.address, row.insecure)
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%q, insecure %v: refused: %v", row.address, row.insecure, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "--grpc-addr")):
			t.Errorf("%q, insecure %v: got %v, want an error with the flag and %q", row.address, row.insecure, err, row.want)
		}
	}
}
