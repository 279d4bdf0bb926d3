"""A start says in one line that it waits for a broker, at which address and for how long; not of one that is slow."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from afl.core.clock import monotonic_s
from afl_stream.kafka.admin import KafkaAdmin
from afl_stream.kafka.errors import Connection
from afl_stream.transport import BrokerTooOld, BrokerUnavailable
from tests.unit.stream.kafka.mock_cluster import mock_cluster


@contextmanager
def admin_of(address: str) -> Iterator[KafkaAdmin]:
    settings = {"bootstrap.servers": address}
    with closing(KafkaAdmin(settings, {**settings, "group.id": "none"}, Connection(address))) as admin:
        yield admin


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_start_says_once_that_no_broker_answers(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        # Bound, and not listened on: each connection is refused.
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            admin_of(address) as admin,
            pytest.raises(BrokerUnavailable, match=rf"no broker answers at {address}: .*; gave up after 3.5 s"),
        ):
            admin.connect(3.5)

    (said,) = warnings_in(caplog)
    assert re.fullmatch(rf"no broker answers at {address}: .*refused.*; waiting for it, up to 3\.5 s", said)


def test_nothing_is_said_of_a_broker_that_answers_late_and_in_time(caplog: pytest.LogCaptureFixture) -> None:
    with mock_cluster() as cluster:
        cluster.answer_after(350)
        # This broker does not know the question for its settings, which comes after it was reached.
        began_s = monotonic_s()
        with admin_of(cluster.address) as admin, pytest.raises(BrokerTooOld):
            admin.connect(30)
        took_s = monotonic_s() - began_s

    # On a machine that is as busy as that, it has not answered in time.
    assert warnings_in(caplog) == [] or took_s > 2
