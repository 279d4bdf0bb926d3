"""AFL workflows on Kafka: events on topics, agents as consumer groups."""
