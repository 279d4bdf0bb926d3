"""The Kafka transport: the port over confluent-kafka."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.kafka.transport import KafkaTransport as KafkaTransport

_HOMES = {
    "afl_stream.kafka.transport": "KafkaTransport",
}

__all__ = ["KafkaTransport"]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("answering", "transport")
