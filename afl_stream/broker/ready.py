"""Asks whose broker answers on a port of this machine."""

from __future__ import annotations

from afl_stream.broker.ports import HOST, accepts_connections
from afl_stream.kafka.answering import cluster_id_at


def answering_cluster(port: int, timeout_s: float = 5.0) -> str | None:
    """Return the id of the cluster that answers on this port, None when no broker does."""
    # Looked at first: a client that is refused a connection tries again for the whole time.
    return cluster_id_at(f"{HOST}:{port}", timeout_s) if accepts_connections(port) else None
