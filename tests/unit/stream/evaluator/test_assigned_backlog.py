"""The records that lay on partitions when they were assigned: which are left, and for how long they are waited for."""

from __future__ import annotations

import logging

import pytest

from afl.core.clock import ManualClock
from afl_stream.evaluator.assigned_backlog import LONGEST_STALL_S, LONGEST_WAIT_S, AssignedBacklog
from afl_stream.transport import TopicPartition

CONTROL_0, CONTROL_1 = TopicPartition("control", 0), TopicPartition("control", 1)
COMMANDS_0, EXTERNAL_1 = TopicPartition("commands", 0), TopicPartition("external", 1)


class Here:
    """A backlog, and how far each partition is read."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.backlog = AssignedBacklog("commands", self.clock.monotonic_s)
        self.read: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()

    def add(self, **ends: int) -> None:
        found = {TopicPartition(name[:-1], int(name[-1])): end for name, end in ends.items()}
        self.backlog.add(found)
        self.read.update(dict.fromkeys(found, 0))

    def unread(self) -> set[int]:
        return set(self.backlog.unread(self.read.get, self.paused))

    def has_read_commands(self) -> bool:
        return self.backlog.has_read_commands(self.read.get, self.paused)


def test_timers_of_a_partition_wait_for_the_records_of_all_its_topics() -> None:
    here = Here()
    here.add(control0=3, control1=2, commands0=1, external1=1)
    assert here.unread() == {0, 1}

    here.read.update({CONTROL_0: 3, CONTROL_1: 2})
    assert here.unread() == {0, 1}
    here.read[COMMANDS_0] = 1
    assert here.unread() == {1}
    here.read[EXTERNAL_1] = 1
    assert here.unread() == set()


def test_runnable_workflows_wait_for_commands_only() -> None:
    here = Here()
    here.add(control0=3, commands0=1, external1=1)
    assert not here.has_read_commands()

    here.read[COMMANDS_0] = 1

    assert here.has_read_commands()
    assert here.unread() == {0, 1}


def test_a_partition_that_was_revoked_or_is_paused_is_not_waited_for() -> None:
    here = Here()
    here.add(control0=3, control1=2)

    del here.read[CONTROL_0]
    here.paused.add(CONTROL_1)

    assert here.unread() == set()


def test_commands_are_waited_for_some_seconds_and_then_said_to_be_late(caplog: pytest.LogCaptureFixture) -> None:
    here = Here()
    here.add(commands0=5)
    here.clock.advance(int(LONGEST_WAIT_S * 1_000) - 1)
    assert not here.has_read_commands()

    here.clock.advance(1)

    with caplog.at_level(logging.WARNING):
        assert here.has_read_commands()
        assert here.has_read_commands()
    assert [record.getMessage() for record in caplog.records] == [
        "runnable workflows continue, although earlier commands are still to be read from commands[0]"
    ]
    assert here.unread() == {0}


def test_timers_wait_as_long_as_records_are_read_however_many_there_are() -> None:
    here = Here()
    here.add(control0=1_000)

    for offset in range(100):
        here.read[CONTROL_0] = offset
        assert here.unread() == {0}
        here.clock.advance(int(LONGEST_STALL_S * 1_000) - 1)


def test_timers_do_not_wait_for_ever_where_nothing_is_read(caplog: pytest.LogCaptureFixture) -> None:
    here = Here()
    here.add(control0=1_000)
    assert here.unread() == {0}

    here.clock.advance(int(LONGEST_STALL_S * 1_000))

    with caplog.at_level(logging.WARNING):
        assert here.unread() == set()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "control[0]" in message
