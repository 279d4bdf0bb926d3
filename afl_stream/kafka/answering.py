"""The question whose broker answers at an address, without any settings."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient


def cluster_id_at(bootstrap: str, timeout_s: float = 5.0) -> str | None:
    """Return the id of the cluster that answers at this address, None when no broker does."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 5000})
    try:
        cluster = client.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1)
    except (KafkaException, TimeoutError):
        return None
    return str(cluster.cluster_id) if cluster.nodes else None
