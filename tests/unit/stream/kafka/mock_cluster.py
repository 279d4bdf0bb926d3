"""A broker of librdkafka's own, in this process, that says of a topic what a test tells it to."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

_PRODUCER = 0


def _library() -> ctypes.CDLL:
    (path,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*.so*")
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MockCluster:
    """One broker that keeps nothing; see `mock_cluster`."""

    def __init__(self, library: ctypes.CDLL, cluster: ctypes.c_void_p) -> None:
        self._library = library
        self._cluster = cluster
        self.address: str = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()

    def create_topic(self, name: str, error: int = 0) -> None:
        """Create a topic; the broker lists it with this error."""
        self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), 1, 1)
        self._library.rd_kafka_mock_topic_set_error(self._cluster, name.encode(), error)

    def answer_after(self, delay_ms: int) -> None:
        """Let each answer of the broker take this long."""
        self._library.rd_kafka_mock_broker_set_rtt(self._cluster, 1, delay_ms)


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    """Run a broker while this context lasts."""
    library = _library()
    handle = ctypes.c_void_p(library.rd_kafka_new(_PRODUCER, None, None, 0))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(handle, 1))
    try:
        yield MockCluster(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(handle)
