"""Errors of a schema registry that do not pass by themselves."""

from __future__ import annotations

from afl_stream.errors import ConfigError, SchemaUnavailable


class SchemaRefused(SchemaUnavailable):
    """The registry lacks a schema that a writer needs, and does not take it from this writer.

    A process does not start with it, and a run that needs it is not started. What runs already waits, until someone has
    registered the schema or allowed it.
    """

    fact = "cannot be written"
    waits_for_people = True

    def __init__(self, topic: str, subject: str, cause: str) -> None:
        super().__init__(f"{topic}: a record with the schema of subject {subject}", cause)
        self.topic = topic
        self.subject = subject


class SchemaNotRegistered(SchemaRefused):
    """A schema is not registered under its subject, and this process may not register it."""

    def __init__(self, topic: str, subject: str, record: str) -> None:
        cause = (
            f"this schema of {record} is not registered there, and registry.auto_register is off; compare and register "
            "it with: afl-stream schemas check, afl-stream schemas register"
        )
        super().__init__(topic, subject, cause)


class SchemaIncompatible(SchemaRefused):
    """The registry refuses a schema as incompatible with one that its subject has."""

    def __init__(self, topic: str, subject: str, record: str, why: str) -> None:
        super().__init__(topic, subject, f"the registry refuses this schema of {record} as incompatible: {why}")
        self.why = why


class RegistryClientMissing(ConfigError):
    """A registry is set, and the libraries of its client are not installed."""

    def __init__(self, missing: str) -> None:
        expected = f"the extra `registry` ({missing} is not installed): pip install 'afl-stream[registry]'"
        super().__init__("settings", "registry.url", "a registry", expected)
