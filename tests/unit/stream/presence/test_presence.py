"""Who announces itself is listed, who leaves is not, and who dies is gone after three intervals."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.presence.announcing import Announcer, announced, new_member, sign_off
from afl_stream.presence.listing import read_presence
from afl_stream.presence.records import Presence, decode, encode
from tests.eventually import eventually

TOPIC = "afl.presence"
#: What an agent in another language writes at least.
LEAST = {"kind": "agent", "seen_at": 1_000, "interval_s": 10}


@pytest.fixture
def transport() -> Iterator[EmbeddedTransport]:
    with closing(EmbeddedTransport()) as found:
        found.admin().create_topic(TOPIC, partitions=1, settings={"cleanup.policy": "compact,delete"})
        yield found


def test_a_record_comes_back_as_it_was_written() -> None:
    member = replace(
        new_member("agent", 10, name="till"), facets=("shop.Pay",), groups=("g",), lag=3, ready=False, reasons=("away",)
    )

    assert decode(member.id.encode(), encode(member)) == member


def test_four_lines_of_json_are_enough() -> None:
    found = decode(b"rust-7", json.dumps(LEAST).encode())

    assert found == Presence(id="rust-7", kind="agent", seen_at=1_000, interval_s=10)


@pytest.mark.parametrize(
    "value",
    [
        b"{", b"[]", b"\xff", b"null", b'{"kind": "agent"}', json.dumps({**LEAST, "kind": 7}).encode(),
        json.dumps({**LEAST, "interval_s": 0}).encode(), json.dumps({**LEAST, "seen_at": "now"}).encode(),
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_presence_record_is_passed_over(value: bytes) -> None:
    assert decode(b"k", value) is None


def test_fields_of_another_type_count_as_missing() -> None:
    odd = {**LEAST, "facets": "shop.Pay", "lag": -1, "name": 7, "reasons": [1, "real"], "new": {}}

    assert decode(b"k", json.dumps(odd).encode()) == Presence(
        id="k", kind="agent", seen_at=1_000, interval_s=10, reasons=("real",)
    )


def test_a_process_is_gone_after_three_intervals() -> None:
    member = Presence(id="a", kind="agent", seen_at=100_000, interval_s=10)

    assert [member.is_gone(now_ms) for now_ms in (100_000, 129_999, 130_000)] == [False, False, True]


def test_the_latest_record_of_each_counts_and_a_clean_end_leaves_none(transport: EmbeddedTransport) -> None:
    here, lag = new_member("agent", 10), [1]
    announcer = Announcer(transport, TOPIC, lambda: replace(here, lag=lag[0]))
    assert announcer.announce()
    lag[0] = 5
    assert announcer.announce()
    assert [member.lag for member in read_presence(transport, TOPIC)] == [5]

    announcer.leave()

    assert read_presence(transport, TOPIC) == []


def test_another_process_can_say_that_one_is_gone(transport: EmbeddedTransport) -> None:
    here = new_member("evaluator", 10)
    assert Announcer(transport, TOPIC, lambda: here).announce()

    assert sign_off(transport, TOPIC, here.id)

    assert read_presence(transport, TOPIC) == []
    assert not sign_off(transport, "no.such.topic", here.id)


def test_a_process_is_listed_while_it_runs(transport: EmbeddedTransport) -> None:
    here = new_member("evaluator", 10)
    with announced(transport, TOPIC, 10, lambda: here):
        eventually(lambda: [member.id for member in read_presence(transport, TOPIC)] == [here.id])

    assert read_presence(transport, TOPIC) == []


def test_a_deployment_without_the_topic_works_without_presence() -> None:
    with closing(EmbeddedTransport()) as transport:
        announcer = Announcer(transport, TOPIC, lambda: new_member("agent", 10))

        assert not announcer.announce()
        assert read_presence(transport, TOPIC) == []
        announcer.leave()


def test_a_process_that_cannot_say_how_it_does_goes_on(transport: EmbeddedTransport) -> None:
    def fail() -> Presence:
        raise ZeroDivisionError

    assert not Announcer(transport, TOPIC, fail).announce()
