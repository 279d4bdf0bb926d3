// go run ./examples/charge localhost:9092
package main

import (
	"context"
	"log"
	"os"

	aflstream "github.com/afl-stream/afl-stream/clients/go"
)

type order struct{ Order string }
type receipt struct {
	Receipt string `json:"receipt"`
}

func charge(_ context.Context, _ *aflstream.Event, given order) (receipt, error) {
	if given.Order == "stolen" {
		return receipt{}, &aflstream.Failure{Type: "CardDeclined", Message: "no funds"}
	}
	return receipt{"go-" + given.Order}, nil
}

func main() {
	agent := aflstream.NewAgent(aflstream.Options{Brokers: os.Args[1:2], Attempts: 3})
	log.Fatal(agent.Handle("shop.Charge", aflstream.Typed(charge)).Run(context.Background()))
}
