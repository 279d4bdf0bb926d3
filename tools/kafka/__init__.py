"""A real Apache Kafka on this machine without Docker: for tests, benchmarks and people."""

from tools.kafka.broker import Broker
from tools.kafka.cluster import Cluster
from tools.kafka.errors import (
    BrokerDidNotStart,
    JarsMissing,
    JavaMissing,
    KafkaToolError,
    NotInstalled,
    NotThisBroker,
    StrangerOnThePort,
)
from tools.kafka.old import OldBroker
from tools.kafka.settings import BrokerSettings

__all__ = [
    "Broker",
    "BrokerDidNotStart",
    "BrokerSettings",
    "Cluster",
    "JarsMissing",
    "JavaMissing",
    "KafkaToolError",
    "NotInstalled",
    "NotThisBroker",
    "OldBroker",
    "StrangerOnThePort",
]
