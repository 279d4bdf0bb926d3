"""Telemetry: what runs do, as structured events, and the sinks that take them."""
