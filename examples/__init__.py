"""Programs that run, with the handlers that do their work."""
