package api

import (
	"fmt"
	"net"
)

// CheckListen refuses a listen address that other machines reach, unless insecure says that the operator
// means it: there is no TLS and no authentication yet, so whoever reaches the port can run commands. flag
// names the address's flag in the error ("--grpc-addr").
//
// A host name other than localhost counts as reachable even if it resolves to loopback today.
func CheckListen(flag, address string, insecure bool) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w; write host:port, such as 127.0.0.1:7460", flag, address, err)
	}
	if insecure || Loopback(host) {
		return nil
	}
	reach := host
	if host == "" {
		reach = "every interface"
	}
	return fmt.Errorf("%s %q: refused, since anyone who reaches %s could run commands on this machine: "+
		"there is no TLS and no authentication yet; listen on 127.0.0.1, or add --insecure if the network is trusted",
		flag, address, reach)
}

// Loopback says whether a host is reached from this machine alone.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
