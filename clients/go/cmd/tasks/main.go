// The agent of the tests: tasks BROKER PREFIX GROUP
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	aflstream "github.com/afl-stream/afl-stream/clients/go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type params struct {
	Kind   string
	Number int64
}

func main() {
	broker, prefix, group := os.Args[1], os.Args[2], os.Args[3]
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		log.Fatal(err)
	}
	later := aflstream.NewAnswers(client, prefix, "go-later", group)
	do := func(_ context.Context, event *aflstream.Event, given params) (map[string]string, error) {
		answer := map[string]string{"text": strconv.FormatInt(given.Number, 10), "by": "go"}
		switch {
		case given.Kind == "wrong":
			answer["colour"] = "red"
		case given.Kind == "declined":
			return nil, &aflstream.Failure{Type: "CardDeclined", Message: "no funds"}
		case given.Kind == "flaky" && event.Tries == 1:
			return nil, errors.New("not yet")
		case given.Kind == "flaky":
			answer["text"] = fmt.Sprintf("try %d", event.Tries)
		case given.Kind == "later":
			ref := event.Ref()
			time.AfterFunc(50*time.Millisecond, func() {
				answer["text"] = "later"
				if err := later.Continue(context.Background(), ref, answer, nil); err != nil {
					log.Print(err)
				}
			})
			return nil, aflstream.ErrDeferred
		}
		return answer, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	agent := aflstream.NewAgent(aflstream.Options{
		Brokers: []string{broker}, Prefix: prefix, Group: group, Attempts: 3, Backoff: 20 * time.Millisecond,
	})
	if err := agent.Handle("tasks.Do", aflstream.Typed(do)).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
