package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envPrefix begins the names of all our environment variables.
const envPrefix = "QUORUMCRON_"

// envAnnotation marks a flag that an environment variable can set; its value is the variable's name.
const envAnnotation = "environment"

// envName is the variable of a flag: --session-ttl is QUORUMCRON_SESSION_TTL.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment lets environment variables set the flags, and says so in their help.
func fromEnvironment(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Usage += " [" + envName(name) + "]"
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[envAnnotation] = []string{envName(name)}
	}
}

// applyEnvironment sets the flags of a command that the command line leaves open. A flag comes before
// the variable, the variable before the default. An empty variable is none.
func applyEnvironment(cmd *cobra.Command, c *console) error {
	var wrong error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names := f.Annotations[envAnnotation]
		if len(names) == 0 || f.Changed || wrong != nil {
			return
		}
		value, _ := c.lookup(names[0])
		if value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			wrong = usageError(cmd, fmt.Errorf("%s=%q: %w", names[0], value, err))
		}
	})
	return wrong
}

// strayVariables finds variables of ours that mean nothing: near is the one that was probably meant,
// or "". A name that something else is known to make (Kubernetes does for a service of our name) is
// left out.
func strayVariables(flags *pflag.FlagSet, environ []string) (stray, near []string) {
	known := map[string]bool{}
	flags.VisitAll(func(f *pflag.Flag) { known[envName(f.Name)] = true })
	for _, name := range []string{"NAMESPACE", "JOB", "FIRING", "INSTANT", "ATTEMPT", "TOKEN", "MEMBER", "PART", "PARTS", "SERVER", "TIMEOUT", "ETCD_PASSWORD"} {
		known[envPrefix+name] = true
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || known[name] || ofKubernetes(name) {
			continue
		}
		closest := ""
		for candidate := range known {
			if typo(name, candidate) && (closest == "" || candidate < closest) {
				closest = candidate
			}
		}
		stray, near = append(stray, name), append(near, closest)
	}
	return stray, near
}

// ofKubernetes recognises what a kubelet sets for a service named quorumcron, or quorumcron-something.
func ofKubernetes(name string) bool {
	return strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT_") || strings.HasSuffix(name, "_PORT")
}

// typo says whether one name becomes the other by one letter more, less, or changed, or two swapped.
func typo(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 0:
		swapped := i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		return i == len(a) || a[i+1:] == b[i+1:] || swapped
	case 1:
		return a[i:] == b[i+1:]
	}
	return false
}
