package aflstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Returns says which returns a result must have, and which it may have.
type Returns struct {
	Required []string `json:"required"`
	Optional []string `json:"optional"`
}

// Event asks for the work of a facet for a step. ID is the key for idempotency.
type Event struct {
	ID          string          `json:"id"`
	WorkflowID  string          `json:"workflow_id"`
	StepID      string          `json:"step_id"`
	Facet       string          `json:"event_type"`
	Payload     json.RawMessage `json:"payload"`
	Attempt     int64           `json:"attempt"`
	Deadline    int64           `json:"deadline"`
	AnswerToken string          `json:"answer_token"`
	Returns     *Returns        `json:"returns"`
	// Tries is how often the handler has run for this event here.
	Tries   int               `json:"-"`
	Headers map[string]string `json:"-"`
	answers *Answers
}

// Bind reads the payload into a struct or map. A Long is exact in an int64.
func (e *Event) Bind(into any) error { return json.Unmarshal(e.Payload, into) }

// Ref names the step in answers; keep it to answer later.
func (e *Event) Ref() StepRef {
	return StepRef{e.StepID, e.WorkflowID, e.ID, e.Attempt, e.AnswerToken}
}

// Update gives the step returns before the handler ends.
func (e *Event) Update(ctx context.Context, partial any) error {
	return e.answers.Update(ctx, e.Ref(), partial, e.Headers)
}

// Unreadable is a record that can never be an event.
type Unreadable struct{ Reason, Message string }

func (u *Unreadable) Error() string { return u.Message }

var known = map[string]int{"workflow_version": 1, "step_schema_version": 1, "runtime_version": 0}

// readEvent returns an Unreadable for what can never be read, and another error for what another release or setting can.
func readEvent(value []byte, facet string) (*Event, error) {
	if value == nil {
		return nil, &Unreadable{"null_value", "the record has no value"}
	}
	if len(value) == 0 {
		return nil, &Unreadable{"empty_value", "the record's value has no bytes"}
	}
	if value[0] == 0 || bytes.HasPrefix(value, []byte{0xc3, 1}) {
		said := `the event is Avro: give the evaluators wire.facet_events = "%s=json"; what is Avro already, an agent in Python answers`
		return nil, fmt.Errorf(said, facet)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return nil, &Unreadable{"bad_json", err.Error()}
	}
	if data, isThere := members["data"]; isThere && members["specversion"] != nil {
		value = data
		if err := json.Unmarshal(value, &members); err != nil {
			return nil, &Unreadable{"bad_json", err.Error()}
		}
	}
	for name, ours := range known {
		var version string
		_ = json.Unmarshal(members[name], &version)
		first, _, _ := strings.Cut(version, ".")
		if found, err := strconv.Atoi(first); err == nil && found > ours {
			return nil, fmt.Errorf("%s is %s, and this client knows %d: upgrade it", name, version, ours)
		}
	}
	for _, name := range []string{"id", "workflow_id", "step_id", "event_type", "payload", "attempt"} {
		if _, isThere := members[name]; !isThere {
			return nil, &Unreadable{"missing_field", "Event without " + name}
		}
	}
	event := new(Event)
	if err := json.Unmarshal(value, event); err != nil {
		return nil, &Unreadable{"wrong_type", err.Error()}
	}
	if !bytes.HasPrefix(event.Payload, []byte("{")) {
		return nil, &Unreadable{"wrong_type", "Event.payload is no map of parameters"}
	}
	return event, nil
}

func headersOf(record *kgo.Record) map[string]string {
	headers := make(map[string]string, len(record.Headers))
	for _, header := range record.Headers {
		headers[header.Key] = string(header.Value)
	}
	return headers
}

// refOfHeaders returns the step that a record's headers name, though its value cannot be read.
func refOfHeaders(headers map[string]string) (StepRef, bool) {
	var named struct {
		ID      string `json:"id"`
		Subject string `json:"subject"`
		Attempt int64  `json:"attempt"`
	}
	_ = json.Unmarshal([]byte(headers["afl"]), &named)
	if headers["ce_id"] != "" {
		named.ID, named.Subject = headers["ce_id"], headers["ce_subject"]
		named.Attempt, _ = strconv.ParseInt(headers["afl_attempt"], 10, 64)
	}
	if named.ID == "" || named.ID != fmt.Sprintf("%s#%d", named.Subject, named.Attempt) {
		return StepRef{}, false
	}
	workflow, _, _ := strings.Cut(named.Subject, ":")
	return StepRef{StepID: named.Subject, WorkflowID: workflow, EventID: named.ID, Attempt: named.Attempt}, true
}
