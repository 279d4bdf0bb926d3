package aflstream

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestKeysArePlacedAsKafkasOwnTestsPlaceThem(t *testing.T) {
	text, err := os.ReadFile("../../schemas/partitioner_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Key  string `json:"key"`
			Of6  int    `json:"partition_of_6"`
			Of12 int    `json:"partition_of_12"`
		} `json:"vectors"`
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Vectors) < 7 {
		t.Fatal(err, len(file.Vectors))
	}
	partitioner := JavaPartitioner().ForTopic("afl.control")
	for _, vector := range file.Vectors {
		record := &kgo.Record{Key: []byte(vector.Key)}
		if got := partitioner.Partition(record, 6); got != vector.Of6 {
			t.Errorf("%q: %d of 6, wanted %d", vector.Key, got, vector.Of6)
		}
		if got := partitioner.Partition(record, 12); got != vector.Of12 {
			t.Errorf("%q: %d of 12, wanted %d", vector.Key, got, vector.Of12)
		}
	}
}

func TestALongKeepsAllOfItsDigits(t *testing.T) {
	event, err := readEvent([]byte(`{"id":"w:a#1","workflow_id":"w","step_id":"w:a","event_type":"n.F","attempt":1,
		"payload":{"number":9223372036854775807}}`), "n.F")
	if err != nil {
		t.Fatal(err)
	}
	var params struct{ Number int64 }
	if err := event.Bind(&params); err != nil || params.Number != 9223372036854775807 {
		t.Fatal(err, params)
	}
}
