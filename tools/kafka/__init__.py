"""A real Apache Kafka on this machine without Docker: for tests, benchmarks and people."""

from afl_stream.broker.broker import Broker
from afl_stream.broker.errors import (
    BrokerDidNotStart,
    JarsMissing,
    JavaMissing,
    LocalBrokerError,
    NotInstalled,
    NotThisBroker,
    StrangerOnThePort,
)
from afl_stream.broker.settings import BrokerSettings, Listener
from tools.kafka.cluster import Cluster
from tools.kafka.old import OldBroker

__all__ = [
    "Broker",
    "BrokerDidNotStart",
    "BrokerSettings",
    "Cluster",
    "JarsMissing",
    "JavaMissing",
    "Listener",
    "LocalBrokerError",
    "NotInstalled",
    "NotThisBroker",
    "OldBroker",
    "StrangerOnThePort",
]
