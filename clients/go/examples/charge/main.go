// go run ./examples/charge localhost:9092
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	aflstream "github.com/afl-stream/afl-stream/clients/go"
)

func charge(_ context.Context, _ *aflstream.Event, given struct{ Order string }) (map[string]string, error) {
	if given.Order == "stolen" {
		return nil, &aflstream.Failure{Type: "CardDeclined", Message: "no funds"}
	}
	return map[string]string{"receipt": "go-" + given.Order}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	agent := aflstream.NewAgent(aflstream.Options{Brokers: os.Args[1:], Attempts: 3})
	if err := agent.Handle("shop.Charge", aflstream.Typed(charge)).Run(ctx); err != nil {
		log.Fatal(err)
	}
}
