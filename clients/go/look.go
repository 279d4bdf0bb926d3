package aflstream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	lookFor   = 5 * time.Second
	lookEvery = 15 * time.Second
)

// lookAround says until it finds all of it which brokers do not answer, and which topics there are not. franz-go waits for
// both without a word.
func (a *Agent) lookAround(ctx context.Context, client *kgo.Client, group string, topics []string) {
	for {
		missing, err := missingTopics(ctx, client, topics)
		if ctx.Err() != nil {
			return
		}
		names := strings.Join(missing, ", ")
		switch {
		case err != nil:
			a.options.Log("no answer from the brokers %s: %v", strings.Join(a.options.Brokers, ", "), err)
		case len(missing) > 0:
			a.options.Log("no topic %s yet: is the facet's name right, and the prefix %q? \"afl-stream topics apply PROGRAM.afl\" makes topics",
				names, a.options.Prefix)
		default:
			a.options.Log("%s reads %s in the group %s", a.options.Name, strings.Join(topics, ", "), group)
			return
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return
		}
	}
}

func missingTopics(ctx context.Context, client *kgo.Client, topics []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = kmsg.StringPtr(topic)
		request.Topics = append(request.Topics, wanted)
	}
	// A ping tells why there is no connection; a request alone only that its time is over.
	if err := client.Ping(ctx); err != nil {
		return nil, err
	}
	found, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, topic := range found.Topics {
		if errors.Is(kerr.ErrorForCode(topic.ErrorCode), kerr.UnknownTopicOrPartition) && topic.Topic != nil {
			missing = append(missing, *topic.Topic)
		}
	}
	return missing, nil
}
