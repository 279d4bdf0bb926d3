// Package aflstream has agents and answers for AFL Stream, over franz-go.
package aflstream

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrDeferred is what a handler returns when the answer comes later, by Answers and Event.Ref.
var ErrDeferred = errors.New("the answer comes later")

// Failure fails a step: a program catches it by its type.
type Failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (f *Failure) Error() string { return f.Type + ": " + f.Message }

// A Handler does the work of an event. Its result is a struct or map of the facet's returns.
type Handler func(ctx context.Context, event *Event) (any, error)

// Typed makes a handler of a function of a facet's parameters and returns.
func Typed[P, R any](handle func(ctx context.Context, event *Event, params P) (R, error)) Handler {
	return func(ctx context.Context, event *Event) (any, error) {
		var params P
		if err := event.Bind(&params); err != nil {
			return nil, &Failure{Type: "BadPayload", Message: err.Error()}
		}
		return handle(ctx, event, params)
	}
}

// JavaPartitioner places keys by murmur2, as Java's clients do. franz-go's default does, too.
func JavaPartitioner() kgo.Partitioner { return kgo.StickyKeyPartitioner(nil) }

// Options of an agent, each with a default.
type Options struct {
	// Brokers are those of AFL_KAFKA_BOOTSTRAP by default, or localhost:9092.
	Brokers []string
	// Name says who answered. By default it has the host and the process.
	Name string
	// Prefix of topics and groups: AFL_PREFIX by default, or "afl.".
	Prefix string
	// Group for all facets: by default "{prefix}agent.{facet}", which one facet needs.
	Group string
	// Attempts of a handler, and the first wait between them, which doubles. A Failure is not tried again.
	Attempts int
	Backoff  time.Duration
	// Assignor is "cooperative-sticky", as agents in Python have it, or "range".
	Assignor string
	// Log says what is read, and what is tried again: log.Printf by default.
	Log func(format string, values ...any)
	// Client has more options of franz-go: security, for example.
	Client []kgo.Opt
}

// Agent consumes the topics of facets, runs their handlers, answers, and only then moves its offsets.
type Agent struct {
	options  Options
	handlers map[string]Handler
}

// NewAgent returns an agent without handlers.
func NewAgent(options Options) *Agent {
	if options.Prefix == "" {
		options.Prefix = fromEnvironment("AFL_PREFIX", "afl.")
	}
	if len(options.Brokers) == 0 {
		options.Brokers = strings.Split(fromEnvironment("AFL_KAFKA_BOOTSTRAP", "localhost:9092"), ",")
	}
	if options.Name == "" {
		host, _ := os.Hostname()
		options.Name = fmt.Sprintf("go-%s-%d", host, os.Getpid())
	}
	if options.Backoff == 0 {
		options.Backoff = 500 * time.Millisecond
	}
	if options.Log == nil {
		options.Log = log.Printf
	}
	return &Agent{options: options, handlers: map[string]Handler{}}
}

func fromEnvironment(name, otherwise string) string {
	if value, isThere := os.LookupEnv(name); isThere {
		return value
	}
	return otherwise
}

// Handle has the events of a facet handled.
func (a *Agent) Handle(facet string, handler Handler) *Agent {
	a.handlers[facet] = handler
	return a
}

// Run works until the context ends, which is no error, or until something cannot be done.
func (a *Agent) Run(ctx context.Context) error {
	group, topics, err := a.groupAndTopics()
	if err != nil {
		return err
	}
	balancer := kgo.CooperativeStickyBalancer()
	if a.options.Assignor == "range" {
		balancer = kgo.RangeBalancer()
	}
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(a.options.Brokers...), kgo.ClientID(a.options.Name), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topics...), kgo.Balancers(balancer), kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(500 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(JavaPartitioner()), kgo.SessionTimeout(10 * time.Second), kgo.HeartbeatInterval(time.Second),
	}, a.options.Client...)...)
	if err != nil {
		return err
	}
	defer client.Close()
	looking, enough := context.WithCancel(ctx)
	defer enough()
	go a.lookAround(looking, client, group, topics)
	answers := NewAnswers(client, a.options.Prefix, a.options.Name, group)
	for {
		fetches := client.PollRecords(ctx, 100)
		if ctx.Err() != nil {
			return commitLast(client)
		}
		if err := a.refused(group, fetches); err != nil {
			return err
		}
		if err := a.work(ctx, client, answers, fetches); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// commitLast commits what was answered, before the group is left.
func commitLast(client *kgo.Client) error {
	ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := client.CommitMarkedOffsets(ending)
	for _, moved := range []error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID} {
		if errors.Is(err, moved) {
			// The partitions move to other members, who handle the records again.
			return nil
		}
	}
	return err
}

func (a *Agent) groupAndTopics() (string, []string, error) {
	var topics []string
	group := a.options.Group
	for facet := range a.handlers {
		topics = append(topics, a.options.Prefix+"events."+facet)
		if a.options.Group == "" {
			group = a.options.Prefix + "agent." + facet
		}
	}
	if len(topics) == 0 {
		return "", nil, errors.New("an agent needs a handler: agent.Handle(\"ns.Facet\", handler)")
	}
	if len(topics) > 1 && a.options.Group == "" {
		return "", nil, errors.New("several facets need Options.Group, or an agent each")
	}
	return group, topics, nil
}

// refused returns what more attempts do not overcome; franz-go tries the rest again by itself.
func (a *Agent) refused(group string, fetches kgo.Fetches) error {
	for _, failed := range fetches.Errors() {
		var answered *kerr.Error
		if errors.Is(failed.Err, kerr.InconsistentGroupProtocol) {
			return fmt.Errorf("group %s: %w; all members need the same assignor (Options.Assignor, agent.assignor)", group, failed.Err)
		}
		if errors.Is(failed.Err, kgo.ErrClientClosed) || (errors.As(failed.Err, &answered) && !answered.Retriable) {
			return fmt.Errorf("group %s, topic %q: %w", group, failed.Topic, failed.Err)
		}
		a.options.Log("group %s: %v", group, failed.Err)
	}
	return nil
}

// work handles the partitions beside each other, and the records of each in order.
func (a *Agent) work(ctx context.Context, client *kgo.Client, answers *Answers, fetches kgo.Fetches) error {
	var group sync.WaitGroup
	failures := make(chan error, 1)
	fetches.EachPartition(func(partition kgo.FetchTopicPartition) {
		group.Add(1)
		go func() {
			defer group.Done()
			for _, record := range partition.Records {
				if ctx.Err() != nil {
					return
				}
				if err := a.handle(ctx, answers, record); err != nil {
					select {
					case failures <- fmt.Errorf("%s[%d]@%d: %w", record.Topic, record.Partition, record.Offset, err):
					default:
					}
					return
				}
				client.MarkCommitRecords(record)
			}
		}()
	})
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

func (a *Agent) handle(ctx context.Context, answers *Answers, record *kgo.Record) error {
	headers := headersOf(record)
	event, err := readEvent(record.Value, strings.TrimPrefix(record.Topic, a.options.Prefix+"events."))
	var unreadable *Unreadable
	if errors.As(err, &unreadable) {
		return a.giveUp(answers, record, headers, unreadable)
	}
	if err != nil {
		return err
	}
	event.Headers, event.answers = headers, answers
	handler, isThere := a.handlers[event.Facet]
	if !isThere {
		return answers.Fail(context.Background(), event.Ref(), &Failure{"NoHandler", "no handler for facet " + event.Facet}, headers)
	}
	limited := ctx
	if event.Deadline != 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, time.UnixMilli(event.Deadline))
		defer cancel()
	}
	for event.Tries = 1; ; event.Tries++ {
		result, failure := handler(limited, event)
		if event.Tries > 1 {
			headers[triesHeader] = strconv.Itoa(event.Tries)
		}
		if errors.Is(failure, ErrDeferred) {
			return nil
		}
		// An answer that was worked for is sent, also while the agent ends.
		if failure == nil {
			return answers.result(context.Background(), event, result, headers)
		}
		var typed *Failure
		wait := a.options.Backoff << (event.Tries - 1)
		isLate := event.Deadline != 0 && time.Now().Add(wait).UnixMilli() >= event.Deadline
		if errors.As(failure, &typed) || event.Tries >= a.options.Attempts || isLate {
			return answers.Fail(context.Background(), event.Ref(), failure, headers)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
