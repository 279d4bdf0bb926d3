"""A holder and its guests: deaths on both sides, another holder, what is no request, and who gets in."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from afl_stream.embedded.file import FileInUse
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.holder.frames import MAX_BODY_BYTES, PROTOCOL
from afl_stream.holder.guest import GuestTransport, HolderAway
from afl_stream.holder.joining import hold, hold_or_join, is_served
from afl_stream.holder.places import socket_path
from afl_stream.holder.serving import HolderSocket
from afl_stream.transport import (
    BrokerUnavailable,
    CommittedOffset,
    Fenced,
    RecordTooLarge,
    TopicPartition,
    TransportError,
    WrongCluster,
    produce_acknowledged,
)
from tests.contract.transport_contract import Reader, pump_until
from tests.eventually import eventually

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Holder:
    """A process that holds the log, as far as its guests see."""

    def __init__(self, path: Path, *, longest_silence_s: float = 300.0) -> None:
        self.broker = EmbeddedBroker(path)
        self.socket = HolderSocket(self.broker, path, longest_silence_s=longest_silence_s)

    def close(self) -> None:
        self.socket.close()
        self.broker.close()

    def die(self) -> None:
        """End without writing what has gathered."""
        self.broker.abandon()
        self.socket.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite3"


@pytest.fixture
def holder(path: Path) -> Iterator[Holder]:
    holder = Holder(path)
    holder.broker.create_topic("a", 2, 1, {})
    yield holder
    holder.close()


@pytest.fixture
def guest(path: Path, holder: Holder) -> Iterator[GuestTransport]:
    guest = GuestTransport(path)
    yield guest
    guest.abandon()


def write(transport: GuestTransport | EmbeddedTransport, *values: bytes) -> None:
    producer = transport.producer()
    for value in values:
        producer.produce("a", value, partition=0)
    assert producer.flush(15.0) == 0
    producer.close()


def member(transport: GuestTransport, group: str = "g") -> Reader:
    reader = Reader(transport.consumer(group))
    reader.consumer.subscribe(["a"], listener=reader)
    return reader


def assigned(*readers: Reader) -> bool:
    return len(frozenset[TopicPartition]().union(*(r.consumer.assignment() for r in readers))) == 2


# Deaths of guests


def test_a_guest_that_dies_is_out_of_its_group_and_what_it_had_not_committed_comes_again(
    path: Path, holder: Holder, guest: GuestTransport
) -> None:
    dying = GuestTransport(path)
    first = member(dying)
    write(guest, b"1", b"2")
    pump_until(lambda: first.values == [b"1", b"2"], first)
    first.consumer.commit({A0: CommittedOffset(offset=1)}, wait=True)
    second = member(guest)

    dying.abandon()

    pump_until(lambda: second.consumer.assignment() == {A0, A1} and second.values == [b"2"], second)


def test_a_member_that_asks_for_nothing_for_too_long_loses_its_partitions(path: Path) -> None:
    holder = Holder(path, longest_silence_s=0.3)
    holder.broker.create_topic("a", 2, 1, {})
    silent, other = GuestTransport(path), GuestTransport(path)
    first = member(silent)
    pump_until(lambda: assigned(first), first)
    second = member(other)

    pump_until(lambda: second.consumer.assignment() == {A0, A1}, second)

    with pytest.raises(Fenced):
        first.consumer.commit({A0: CommittedOffset(offset=1)}, wait=True)
    pump_until(lambda: ("lost", A0) in first.events and len(first.consumer.assignment()) == 1, first, second)
    silent.abandon()
    other.abandon()
    holder.close()


def test_a_listener_that_fails_is_heard_by_its_own_caller_and_the_partitions_are_offered_again(
    guest: GuestTransport,
) -> None:
    class Failing:
        def __init__(self) -> None:
            self.calls = 0

        def on_assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
            self.calls += 1
            if self.calls == 1:
                raise LookupError("not yet")
            return None

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None: ...

        def on_lost(self, partitions: Sequence[TopicPartition]) -> None: ...

    consumer, listener = guest.consumer("g"), Failing()
    consumer.subscribe(["a"], listener=listener)

    with pytest.raises(LookupError, match="not yet"):
        consumer.consume(1, 1.0)
    assert consumer.assignment() == frozenset()

    eventually(lambda: consumer.consume(1, 0.01) == [] and consumer.assignment() == {A0, A1})


# Deaths of holders


def test_with_another_holder_a_member_has_lost_its_partitions_and_reads_again_what_it_had_not_committed(
    path: Path, holder: Holder, guest: GuestTransport
) -> None:
    reader = member(guest)
    write(guest, b"1", b"2")
    pump_until(lambda: reader.values == [b"1", b"2"], reader)
    reader.consumer.commit({A0: CommittedOffset(offset=1)}, wait=True)

    holder.die()
    with pytest.raises(HolderAway, match=r"log\.sqlite3: its holder, process \d+, is gone"):
        reader.consumer.consume(1, 1.0)
    with pytest.raises(Fenced):
        reader.consumer.commit({A0: CommittedOffset(offset=2)}, wait=True)
    assert reader.consumer.view().is_reported is False
    another = Holder(path)

    pump_until(lambda: reader.values == [b"1", b"2", b"2"], reader)
    assert ("lost", A0) in reader.events
    reader.consumer.close()
    another.close()


def test_with_another_holder_a_reader_without_a_group_goes_on_where_it_stood(
    path: Path, holder: Holder, guest: GuestTransport
) -> None:
    write(guest, b"1", b"2", b"3")
    consumer = guest.consumer(None)
    consumer.assign({A0: 0, A1: 0})
    consumer.pause([A1])
    assert [record.value for record in consumer.consume(2, 5.0)] == [b"1", b"2"]

    holder.die()
    another = Holder(path)

    assert [record.value for record in consumer.consume(2, 5.0)] == [b"3"]
    assert consumer.position(A0) == 3
    another.close()


def test_records_produced_while_nobody_holds_the_log_go_to_the_next_holder_in_their_order(
    path: Path, holder: Holder, guest: GuestTransport
) -> None:
    producer, heard = guest.producer(), list[int]()
    holder.die()
    for number in range(50):
        producer.produce("a", b"%d" % number, partition=0, on_delivery=lambda _e, _w, offset: heard.append(offset))
    assert producer.flush(0.1) == 50

    another = Holder(path)

    assert producer.flush(15.0) == 0
    assert heard == list(range(50))
    another.close()


def test_a_record_that_waits_too_long_for_a_holder_fails(path: Path, holder: Holder) -> None:
    guest = GuestTransport(path, delivery_timeout_s=0.05)
    producer = guest.producer()
    holder.die()

    with pytest.raises(BrokerUnavailable, match=r"not delivered in 0\.05 s"):
        produce_acknowledged(producer, "a", b"v", key=b"k", timeout_s=10.0)
    guest.abandon()


def test_a_log_that_was_replaced_is_another_one(path: Path, holder: Holder, guest: GuestTransport) -> None:
    holder.die()
    for left in path.parent.iterdir():
        left.unlink()
    another = Holder(path)

    with pytest.raises(WrongCluster, match="was replaced"):
        guest.admin().topic_names()
    another.close()


# What is no request


def connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10.0)
    connection.connect(str(socket_path(path)))
    return connection


def frame(head: object) -> bytes:
    encoded = json.dumps(head).encode()
    return struct.pack(">II", len(encoded), 0) + encoded


HELLO = frame({"hello": PROTOCOL, "kind": "admin", "pid": 7})


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"\x00\x00\x00\x03\x00\x00\x00\x00abc", "is not JSON"),
        (frame([]), "is a JSON object, found list"),
        (frame({"hello": 99, "release": "9.9"}), "protocol 1, found 99 of release '9.9'"),
        (frame({"hello": PROTOCOL, "kind": "spy"}), "does not say what its guest is"),
        (HELLO + struct.pack(">II", 2, MAX_BODY_BYTES + 1), "is refused: at most"),
        (HELLO + frame({"do": "halt"}), "no request 'halt'; known are cluster_id, create_topic"),
        (HELLO + frame({"do": "create_topic"}), "request 'create_topic' is not as it should be: KeyError('name')"),
    ],
)
def test_what_is_no_request_ends_its_connection_with_a_message_and_no_other(
    path: Path, guest: GuestTransport, caplog: pytest.LogCaptureFixture, sent: bytes, said: str
) -> None:
    connection = connected(path)

    with caplog.at_level(logging.WARNING):
        connection.sendall(sent)
        answered = b""
        while part := connection.recv(65_536):
            answered += part

    connection.close()
    assert said in answered.decode(errors="replace").replace('\\"', '"')
    assert said in caplog.text
    assert guest.admin().topic_names() == {"a"}


def test_half_a_frame_and_silence_hold_up_no_other_guest(path: Path, guest: GuestTransport) -> None:
    connection = connected(path)
    connection.sendall(HELLO + b"\x00\x00")

    assert guest.admin().topic_names() == {"a"}
    connection.close()


def test_a_record_that_no_request_carries_is_refused_at_once(guest: GuestTransport) -> None:
    with pytest.raises(RecordTooLarge):
        guest.producer().produce("a", bytes(MAX_BODY_BYTES + 1))


# Who gets in, and where


def test_only_the_owner_reaches_the_socket_and_one_of_a_dead_holder_is_replaced(path: Path) -> None:
    place = socket_path(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(place))
    with pytest.raises(HolderAway, match="no process that holds it lets others in"):
        GuestTransport(path)

    holder = Holder(path)

    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    GuestTransport(path).close()
    holder.close()
    assert not place.exists()


def test_a_folder_with_a_long_name_has_a_socket_too(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    holder = Holder(folder / "log.sqlite3")

    guest = GuestTransport(folder / "log.sqlite3")

    assert guest.admin().cluster_id() == holder.broker.cluster_id
    guest.close()
    holder.close()


def test_a_service_holds_the_log_and_the_next_process_is_its_guest(path: Path) -> None:
    held = hold_or_join(path, serves=True)
    joined = hold_or_join(path, serves=True)

    assert (type(joined), is_served(path)) == (GuestTransport, True)
    with pytest.raises(FileInUse, match=f"in use by process {os.getpid()}"):
        hold(path)
    joined.close()
    held.close()
    assert not is_served(path)


def test_a_command_lets_nobody_in_and_its_end_is_waited_for(path: Path) -> None:
    command = hold_or_join(path, serves=False)
    with pytest.raises(FileInUse):
        hold_or_join(path, serves=True)
    command.close()

    hold_or_join(path, serves=True).close()


def test_a_closed_consumer_says_so(guest: GuestTransport) -> None:
    consumer = guest.consumer("g")
    consumer.close()

    with pytest.raises(TransportError, match="closed"):
        consumer.consume(1, 0)
