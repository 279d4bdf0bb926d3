"""Asks whose broker answers at an address."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tools.kafka.ports import accepts_connections


def answering_cluster(bootstrap: str, port: int, timeout_s: float = 5.0) -> str | None:
    """Return the id of the cluster that answers at this address, None when no broker does."""
    # Looked at first: a client that is refused a connection tries again for the whole time.
    if not accepts_connections(port):
        return None
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 5000})
    try:
        cluster = client.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1)
    except (KafkaException, TimeoutError):
        return None
    return str(cluster.cluster_id) if cluster.nodes else None
