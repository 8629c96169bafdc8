package jobfile

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/quorumcron/quorumcron/scheduler"
)

// planned are fields of the design that this version does not have yet, by path.
var planned = map[string]bool{
	"run.http": true, "run.grpc": true, "notify": true, "then": true, "deleteAfter": true, "target.parts": true,
	"policy.retry.initial": true, "policy.retry.factor": true, "policy.retry.max": true, "policy.retry.elsewhere": true,
}

// elsewhere are the words of other schedulers for our fields.
var elsewhere = map[string]string{
	"tz": "schedule.timeZone", "timezone": "schedule.timeZone", "interval": "schedule.every", "crontab": "schedule.cron",
	"cmd": "run.command", "exec": "run.command", "shell": "run.command", "command": "run.command", "executor": "run",
	"concurrency": "policy.overlap", "concurrencyPolicy": "policy.overlap", "startingDeadlineSeconds": "policy.startDeadline",
	"suspend": "paused", "disabled": "paused", "retries": "policy.retry.maxAttempts", "tags": "labels", "nodeSelector": "target.selector",
	"successfulJobsHistoryLimit": "history.limit", "environment": "run.command.env", "workingDir": "run.command.dir",
}

// foreignDocument recognises documents of other systems, which would else be a dozen unknown fields.
func (k subject) foreignDocument(root *node) string {
	has := map[string]bool{}
	for _, e := range root.entries {
		has[e.key.text] = true
	}
	switch {
	case has["apiVersion"] && has["kind"]:
		return "this is a Kubernetes object, not a " + k.noun + " file"
	case has[k.noun+"s"] && !has["name"]:
		return "this is a list of " + k.noun + "s; a " + k.noun + " file has one document for each, with lines --- between them"
	case k == calendars && (has["schedule"] || has["run"]), k == jobs && !has["run"] && !has["schedule"] && (has["dates"] || has["weekdays"] || has["hours"]):
		return k.other
	}
	return ""
}

// unknown reports a field that does not exist, and what was probably meant.
func (d *decoder) unknown(m protoreflect.MessageDescriptor, path string, e entry) {
	name := e.key.text
	at := join(path, name)
	if d.subject == jobs && planned[at] {
		d.failKey(at, e.key, "is not supported yet", "leave it out")
		return
	}
	remedy := "the fields here are " + strings.Join(fieldNames(m, path), ", ")
	if near := scheduler.Nearest(name, fieldNames(m, path)); near != "" {
		remedy = fmt.Sprintf("did you mean `%s`?", near)
		d.wrong[fieldPath(join(path, near))] = true
	} else if place := d.placeOf(name); place != "" && place != at {
		remedy = fmt.Sprintf("did you mean `%s`?", place)
		d.wrong[fieldPath(place)] = true
	}
	d.failKey(at, e.key, "unknown field", remedy)
}

// fieldNames lists the fields of a message that a user may write.
func fieldNames(m protoreflect.MessageDescriptor, path string) []string {
	var names []string
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		if path == "" && fd.Number() >= outputOnly || join(path, fd.JSONName()) == "schedule.origin" {
			continue
		}
		names = append(names, fd.JSONName())
	}
	return names
}

// placeOf finds the path of a field that has the name, or another scheduler's word for one.
func (d *decoder) placeOf(name string) string {
	if place := elsewhere[name]; place != "" && d.subject == jobs {
		return place
	}
	return search(name, d.doc.message().Descriptor(), "")
}

func search(name string, m protoreflect.MessageDescriptor, path string) string {
	for _, known := range fieldNames(m, path) {
		if known == name {
			return join(path, known)
		}
	}
	for _, known := range fieldNames(m, path) {
		fd := m.Fields().ByJSONName(known)
		if fd.Kind() == protoreflect.MessageKind && !fd.IsMap() && !fd.IsList() && !isTimestamp(fd) {
			if place := search(name, fd.Message(), join(path, known)); place != "" {
				return place
			}
		}
	}
	return ""
}

// mappingRemedy says how to write what stands as a single value where a mapping belongs.
func mappingRemedy(path string, n *node) string {
	if n.kind == list && path == "run.command" {
		return "write command: {args: […]}"
	}
	if n.kind != str {
		return ""
	}
	switch path {
	case "schedule":
		if strings.HasPrefix(n.text, "@every ") {
			return fmt.Sprintf("write schedule: {every: %s}", strings.TrimPrefix(n.text, "@every "))
		}
		return fmt.Sprintf("write schedule: {cron: [%s]}", quoted(n.text))
	case "run", "run.command":
		command := fmt.Sprintf(`{args: ["sh", "-c", %s]}`, quoted(n.text))
		if path == "run" {
			return "write run: {command: " + command + "}"
		}
		return "write command: " + command
	case "run.handler":
		return fmt.Sprintf("write handler: {name: %s}", n.text)
	case "policy.catchUp":
		return fmt.Sprintf("write catchUp: {mode: %s}", n.text)
	}
	return ""
}
