package aflstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const triesHeader = "afl_tries"

// StepRef names the step of an answer. StepID is enough; all of it answers for one attempt, with its token.
type StepRef struct {
	StepID      string `json:"step_id"`
	WorkflowID  string `json:"workflow_id,omitempty"`
	EventID     string `json:"event_id,omitempty"`
	Attempt     int64  `json:"attempt,omitempty"`
	AnswerToken string `json:"answer_token,omitempty"`
}

// Answers sends answers to steps, as JSON on the control topic.
type Answers struct {
	client              *kgo.Client
	prefix, name, group string
}

// NewAnswers takes a client, whose keyed records have to go where Java's clients put them: franz-go's default.
func NewAnswers(client *kgo.Client, prefix, name, group string) *Answers {
	return &Answers{client, prefix, name, group}
}

type answer struct {
	StepRef
	Result  any      `json:"result,omitempty"`
	Partial any      `json:"partial,omitempty"`
	Error   *Failure `json:"error,omitempty"`
	Agent   string   `json:"agent,omitempty"`
	Group   string   `json:"group,omitempty"`
}

// Continue lets the step go on with a result: a struct or map of its returns.
func (a *Answers) Continue(ctx context.Context, ref StepRef, result any, headers map[string]string) error {
	if result == nil {
		result = map[string]any{}
	}
	return a.send(ctx, answer{StepRef: ref, Result: result}, headers)
}

// Update gives the step returns before it ends.
func (a *Answers) Update(ctx context.Context, ref StepRef, partial any, headers map[string]string) error {
	return a.send(ctx, answer{StepRef: ref, Partial: partial}, headers)
}

// Fail fails the step. An error that is no Failure has the type "Error".
func (a *Answers) Fail(ctx context.Context, ref StepRef, cause error, headers map[string]string) error {
	failure := &Failure{Type: "Error", Message: cause.Error()}
	errors.As(cause, &failure)
	return a.send(ctx, answer{StepRef: ref, Error: failure}, headers)
}

func (a *Answers) send(ctx context.Context, one answer, headers map[string]string) error {
	one.Agent, one.Group = a.name, a.group
	if one.WorkflowID == "" {
		one.WorkflowID, _, _ = strings.Cut(one.StepID, ":")
	}
	value, err := json.Marshal(one)
	if err != nil {
		return err
	}
	record := &kgo.Record{Topic: a.prefix + "control", Key: []byte(one.WorkflowID), Value: value}
	record.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}}
	for _, name := range []string{"traceparent", "tracestate", triesHeader} {
		if passed, isThere := headers[name]; isThere {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(passed)})
		}
	}
	return a.client.ProduceSync(ctx, record).FirstErr()
}

// result answers with what a handler returned, or says why that is no result.
func (a *Answers) result(ctx context.Context, event *Event, result any, headers map[string]string) error {
	text, err := json.Marshal(result)
	if err != nil {
		return a.Fail(ctx, event.Ref(), &Failure{"BadResult", err.Error()}, headers)
	}
	returns := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &returns); err != nil {
		return a.Fail(ctx, event.Ref(), &Failure{"BadResult", "a result is an object of returns: " + err.Error()}, headers)
	}
	if event.Returns != nil {
		for name := range returns {
			if !contains(event.Returns.Required, name) && !contains(event.Returns.Optional, name) {
				declared := strings.Join(append(append([]string{}, event.Returns.Required...), event.Returns.Optional...), ", ")
				said := fmt.Sprintf("the result of %s has %s, which %[1]s does not declare; it declares %s", event.Facet, name, declared)
				return a.Fail(ctx, event.Ref(), &Failure{"ResultMismatch", said}, headers)
			}
		}
	}
	if returns == nil {
		returns = map[string]json.RawMessage{}
	}
	return a.Continue(ctx, event.Ref(), returns, headers)
}

// giveUp sends what cannot be read to the dead letters, and fails the step that its headers name.
func (a *Agent) giveUp(answers *Answers, record *kgo.Record, headers map[string]string, cause *Unreadable) error {
	ctx := context.Background()
	letter := &kgo.Record{Key: record.Key, Value: record.Value, Headers: append([]kgo.RecordHeader{}, record.Headers...)}
	letter.Topic = a.options.Prefix + "dlq." + strings.TrimPrefix(record.Topic, a.options.Prefix)
	for _, said := range [][2]string{
		{"topic", record.Topic}, {"partition", strconv.Itoa(int(record.Partition))},
		{"offset", strconv.FormatInt(record.Offset, 10)}, {"timestamp", strconv.FormatInt(record.Timestamp.UnixMilli(), 10)},
		{"key", string(record.Key)}, {"reason", cause.Reason}, {"error_class", "Unreadable"}, {"error", cause.Message},
		{"time", time.Now().UTC().Format("2006-01-02T15:04:05.000Z")}, {"group", answers.group}, {"agent", answers.name},
	} {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: "afl.dlq." + said[0], Value: []byte(said[1])})
	}
	if err := answers.client.ProduceSync(ctx, letter).FirstErr(); err != nil {
		return err
	}
	if ref, isNamed := refOfHeaders(headers); isNamed {
		return answers.Fail(ctx, ref, &Failure{"UnreadableEvent", cause.Message}, headers)
	}
	return nil
}

func contains(names []string, wanted string) bool {
	for _, name := range names {
		if name == wanted {
			return true
		}
	}
	return false
}
