"""Release notes: an AFL workflow, an event-driven one and the bridge between them, from a changelog to its readers."""
