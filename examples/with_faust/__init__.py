"""A facet's agent and an audit in Faust, which know Kafka, Avro and `schemas/`, and nothing of AFL Stream."""
