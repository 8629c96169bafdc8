package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorumcron/quorumcron/api"
	"github.com/quorumcron/quorumcron/internal/jobfile"
	quorumcronv1 "github.com/quorumcron/quorumcron/proto/quorumcron/v1"
)

// applyOptions are those of `job apply` and `calendar apply`.
type applyOptions struct {
	serverOptions
	namespaceOption
	calendars bool
	files     []string
	fixed     bool // --namespace was given: no document may name another one
	output    format
}

func newJobApply(c *console) *cobra.Command { return (&applyOptions{}).command(c, "jobs") }

func newCalendarApply(c *console) *cobra.Command {
	return (&applyOptions{calendars: true}).command(c, "calendars")
}

func (o *applyOptions) command(c *console, nouns string) *cobra.Command {
	noun := strings.TrimSuffix(nouns, "s")
	cmd := &cobra.Command{
		Use: "apply -f FILE|DIR|-", Short: "Store " + nouns + " from files, each one whole or not at all", Args: exactly(),
		Long: "Store " + nouns + " from YAML or JSON files with any number of documents; from a folder its *.yaml, *.yml\n" +
			"and *.json files; from stdin for \"-\". All documents are checked before the first is stored: if one is\n" +
			"wrong, everything that is wrong is shown, and nothing is stored. Then each is stored by itself; the\n" +
			"result says which were. Applying the same file again changes nothing. --namespace is for documents\n" +
			"that name none; another one in a document is then an error.",
		Example: "  quorumcron " + noun + " apply -f " + nouns + "/\n" +
			"  quorumcron " + noun + " show night -o yaml | quorumcron " + noun + " apply -f - --server 10.0.1.2:7460",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.fixed = cmd.Flags().Changed("namespace")
			if len(o.files) == 0 {
				return usageError(cmd, errors.New("-f is missing: name a file, a folder, or - for stdin"))
			}
			return o.run(cmd.Context(), c)
		},
	}
	o.serverOptions.addFlags(cmd.Flags())
	o.namespaceOption.addFlags(cmd.Flags())
	cmd.Flags().StringArrayVarP(&o.files, "file", "f", nil, "file, folder, or - for stdin; may be repeated")
	addOutput(cmd, &o.output)
	return cmd
}

// applied is what became of one document.
type applied struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Source    string   `json:"source"`
	Line      int      `json:"line"`
	Change    string   `json:"change"` // created, changed, unchanged, failed, unknown, not tried
	Revision  int64    `json:"revision,string"`
	Next      string   `json:"nextInstant"` // of a job
	Warnings  []string `json:"warnings"`
	Error     string   `json:"error"`

	summary  string   // for the table
	excerpts []string // of the file, one for each field that the server refused
}

func (o *applyOptions) run(ctx context.Context, c *console) error {
	docs, err := o.read(c)
	if err != nil {
		return err
	}
	client, err := o.connect()
	if err != nil {
		return err
	}
	defer client.close()
	results := make([]applied, len(docs))
	var worst, lost error
	for i, doc := range docs {
		r := &results[i]
		*r = applied{Source: doc.Source, Line: doc.Line, Warnings: []string{}}
		r.Namespace, r.Name = doc.Name()
		if lost != nil {
			// Once no node answers there is no point in waiting for each of the others.
			r.Change = "not tried"
			continue
		}
		if err := o.store(ctx, c, client, doc, r); err != nil {
			o.note(r, doc, err)
			if worst == nil {
				worst = err
			}
			if exitCode(err) == exitUnreachable || ctx.Err() != nil {
				lost = err
			}
			continue
		}
		c.warn(r.Warnings)
	}
	if err := o.show(c, results); err != nil {
		return err
	}
	if worst != nil {
		return errReported(exitCode(worst))
	}
	return nil
}

// store stores one document and writes down what came of it.
func (o *applyOptions) store(ctx context.Context, c *console, client *client, doc *jobfile.Document, r *applied) error {
	if o.calendars {
		answer, err := call(ctx, client, client.calendars.Apply, &quorumcronv1.CalendarServiceApplyRequest{Calendar: doc.Calendar})
		if err == nil {
			r.Change, r.Revision, r.Warnings = answer.GetChange(), answer.GetCalendar().GetRevision(), append(r.Warnings, answer.GetWarnings()...)
			r.summary = excludesLine(answer.GetCalendar())
		}
		return err
	}
	answer, err := call(ctx, client, client.jobs.Apply, &quorumcronv1.JobServiceApplyRequest{Job: doc.Job})
	if err != nil {
		return err
	}
	r.Change, r.Revision, r.Warnings = answer.GetChange(), answer.GetJob().GetRevision(), append(r.Warnings, answer.GetWarnings()...)
	if next := c.nextOf(answer.GetJob()); next != nil {
		r.Next = stamp(next)
		r.summary = "next " + r.Next
	}
	return nil
}

// read reads and checks all documents; the error says everything that is wrong with them.
func (o *applyOptions) read(c *console) ([]*jobfile.Document, error) {
	var sources []jobfile.Source
	stdin := false
	for _, name := range o.files {
		if name == "-" && stdin {
			return nil, invalid(errors.New("-f -: stdin can be read once only"))
		}
		stdin = stdin || name == "-"
		more, err := jobfile.Read(name, c.in)
		if err != nil {
			return nil, invalid(err)
		}
		sources = append(sources, more...)
	}
	docs, err := jobfile.Parse(sources, jobfile.Options{Namespace: o.namespace, Fixed: o.fixed, Calendars: o.calendars,
		Check: api.CheckJob, CheckCalendar: api.CheckCalendar})
	if err != nil {
		c.say("%v; nothing was stored", err)
		return nil, errReported(exitUsage)
	}
	return docs, nil
}

// note writes down why a document was not stored, or that nobody knows.
func (o *applyOptions) note(r *applied, doc *jobfile.Document, err error) {
	r.Change, r.Error = "failed", explain(err)
	if code := status.Code(err); (code == codes.Unknown || code == codes.DeadlineExceeded) && !unsent(err) {
		r.Change = "unknown" // It may have been stored. Applying it again is safe.
	}
	if fields := violations(err); len(fields) > 0 {
		var lines []string
		for i, p := range doc.Problems(fields) {
			lines = append(lines, fields[i].Error())
			r.excerpts = append(r.excerpts, p.String())
		}
		r.Error = strings.Join(lines, "; ")
	}
}

func (o *applyOptions) show(c *console, results []applied) error {
	if o.output != formatTable {
		return c.printValue(o.output, map[string][]applied{"results": results})
	}
	counts := map[string]int{}
	err := c.printTable(func(w io.Writer) {
		for _, r := range results {
			counts[r.Change]++
			detail := r.summary
			if r.Error != "" {
				detail = r.Error
			}
			row(w, c.paint(changeColour(r.Change), r.Change), r.Namespace+"/"+r.Name, detail)
		}
	})
	for _, r := range results {
		for _, excerpt := range r.excerpts {
			c.say("%s", excerpt)
		}
	}
	if len(results) > 1 {
		var parts []string
		for _, change := range []string{"created", "changed", "unchanged", "failed", "unknown", "not tried"} {
			if counts[change] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", counts[change], change))
			}
		}
		c.say("%s", strings.Join(parts, ", "))
	}
	return err
}

func changeColour(change string) string {
	switch change {
	case "created", "changed":
		return green
	case "unchanged":
		return plain
	case "not tried":
		return yellow
	default:
		return red
	}
}
