"""Events of paused facets: their rows stay in the store, and are produced once when the facet is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from afl.engine.model.store import Batch, OutboxRecord
from afl.stores.memory.store import MemoryStore
from afl_stream.evaluator.outbox_publisher import OutboxPublisher
from afl_stream.evaluator.pausing.held_events import HeldEvents
from afl_stream.resources import topic_texts
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declarations import load_declarations
from afl_stream.topics.declared import Topology
from afl_stream.wire.headers import EventHeaders, HeaderForm
from afl_stream.wire.messages import Pause, pause_key
from afl_stream.wire.pauses import Pauses
from tests.unit.stream.evaluator.test_outbox_publisher import Line

LANE = "control/0"


class Bench:
    """A publisher that knows of pauses, with a store and a line."""

    def __init__(self, topology: Topology | None = None) -> None:
        self.topology = topology if topology is not None else Topology(StreamConfig())
        self.store, self.line, self.pauses = MemoryStore(), Line(), Pauses()
        held_events = HeldEvents(self.pauses, self.topology)
        self.publisher = OutboxPublisher(self.store, self.line, queue_timeout_s=0.0, held_events=held_events)

    def pause(self, name: str, *, scope: str = "facet", is_paused: bool = True) -> None:
        self.pauses.take(pause_key(scope, name), Pause(scope=scope, name=name, is_paused=is_paused, at=1))

    def publish(self, facet: str, *values: bytes, form: HeaderForm = HeaderForm.COMPACT, lane: str = LANE) -> None:
        headers = EventHeaders(facet, source="/test", form=form)
        described = headers.of(event_id="w:1#1", step_id="w:1", attempt=1, created_at_ms=1)
        records = [OutboxRecord(lane, self.topology.facet(facet), b"w:1", value, described) for value in values]
        self.publisher.publish(self.store.commit_batch(Batch(outbox=records)), records)

    def release(self) -> None:
        """Release all that may go, page by page."""
        self.publisher.release_held()
        while self.publisher.has_released:
            self.line.answer()
            self.publisher.release_held()
        self.line.answer()

    def left(self) -> list[bytes | None]:
        """Delete the rows of what was published, and return what the store still holds."""
        self.line.answer()
        self.store.commit_batch(Batch(published=self.publisher.take_published()))
        return [row.record.value for row in self.store.outbox(limit=10_000)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_events_of_a_paused_facet_stay_in_the_store_and_others_go(bench: Bench) -> None:
    bench.pause("a.F")

    bench.publish("a.F", b"1")
    bench.publish("a.G", b"2")

    assert bench.line.sent == [b"2"]
    assert bench.publisher.held == 1
    assert bench.left() == [b"1"]


def test_a_resumed_facet_sends_each_of_its_events_once(bench: Bench) -> None:
    bench.pause("a.F")
    bench.publish("a.F", b"1", b"2")
    bench.pause("a.F", is_paused=False)

    bench.release()
    bench.release()

    assert bench.line.sent == [b"1", b"2"]
    assert (bench.publisher.held, bench.left()) == (0, [])


def test_many_events_are_released_page_by_page_while_another_facet_stays_paused(bench: Bench) -> None:
    bench.pause("a.F")
    bench.pause("a.G")
    for number in range(1_300):
        bench.publish("a.F" if number % 2 else "a.G", b"%d" % number)
    bench.pause("a.F", is_paused=False)

    bench.publisher.release_held()
    first = len(bench.line.sent)
    bench.publish("a.G", b"later")
    bench.release()

    assert 0 < first < 650
    assert bench.line.sent == [b"%d" % number for number in range(1, 1_300, 2)]
    assert bench.publisher.held == 651


def test_a_pause_that_changes_during_the_release_is_looked_at_from_the_first_row_again(bench: Bench) -> None:
    bench.pause("a.F")
    bench.pause("a.G")
    bench.publish("a.G", b"g")
    for number in range(1_100):
        bench.publish("a.F", b"%d" % number)
    bench.pause("a.F", is_paused=False)
    bench.publisher.release_held()
    bench.line.answer()
    bench.pause("a.G", is_paused=False)

    bench.release()

    assert sorted(bench.line.sent, key=str) == sorted([b"g", *(b"%d" % number for number in range(1_100))], key=str)
    assert bench.publisher.held == 0


def test_the_next_owner_of_a_lane_finds_what_was_held_back_and_the_owner_before_forgets_it(bench: Bench) -> None:
    bench.pause("a.F")
    bench.publish("a.F", b"1")
    bench.publish("a.F", b"2", lane="writer/1")
    bench.publisher.let_go({LANE})
    bench.pause("a.F", is_paused=False)

    bench.release()

    assert bench.line.sent == [b"2"]
    assert bench.left() == [b"1"]


@pytest.mark.parametrize("form", list(HeaderForm))
def test_of_a_topic_that_facets_share_only_the_paused_ones_stay(tmp_path: Path, form: HeaderForm) -> None:
    shared = '[[shared]]\ntopic = "{prefix}together"\nfacets = ["a.F", "a.G"]\n'
    (tmp_path / "facet.toml").write_text(f"{topic_texts()['facet']}\n{shared}")
    bench = Bench(Topology(StreamConfig(), load_declarations(tmp_path)))
    bench.pause("a.F")

    bench.publish("a.F", b"1", form=form)
    bench.publish("a.G", b"2", form=form)

    assert bench.line.sent == [b"2"]


def test_a_pause_of_all_holds_events_and_no_other_record(bench: Bench) -> None:
    bench.pause("", scope="all")
    other = OutboxRecord(LANE, bench.topology.lifecycle(), b"w", b"milestone")

    bench.publish("a.F", b"1")
    bench.publisher.publish(bench.store.commit_batch(Batch(outbox=[other])), [other])

    assert bench.line.sent == [b"milestone"]
