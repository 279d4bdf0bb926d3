"""Which appends on a state topic count: the same for all who read it, whatever writers, crashes and compaction do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl_stream.pubsub.event_stores.on_topic_requests import (
    FORGOTTEN,
    PartitionState,
    StateKey,
    StateRecord,
    in_order_of_removal,
    replayed,
    state_key_of,
)
from afl_stream.wire.topic_events import STATUS, TopicEvent


@pytest.mark.parametrize("request_id", ["", "r", "a/b", "/", "a/0/x", "r\0", "Grüße"])
def test_a_key_says_what_it_was_made_of(request_id: str) -> None:
    key = StateKey(request_id, 12, "w.1f")

    assert state_key_of(key.encode()) == key


@pytest.mark.parametrize("key", [None, b"", b"r", b"r/1", b"r/x/w", b"\xff/1/w"])
def test_a_key_of_others_is_none_of_ours(key: bytes | None) -> None:
    assert state_key_of(key) is None


@dataclass
class Log:
    """A partition, and the ends of requests as each of its writers knows them."""

    records: list[StateRecord] = field(default_factory=list)
    appends: int = 0

    def write(self, key: StateKey, event: TopicEvent | None) -> None:
        self.records.append(StateRecord(len(self.records), key, event, 1_000 + len(self.records), 10))

    def append(self, request_id: str, first: int, after: str | None, count: int, *, torn_at: int | None = None) -> str:
        """Write an append; one that is `torn_at` a number ends before it. Return its id."""
        self.appends += 1
        append = f"w.{self.appends}"
        last = first + count - 1
        for number in range(first, first + count):
            if torn_at is not None and number >= torn_at:
                break
            self.write(StateKey(request_id, number, append), event(append, number, last, after))
        return append

    def end(self, request_id: str, after: str | None = None) -> StateKey:
        """Write the end of a request, after what is left of earlier ones is cleared; return its key."""
        self.clear(request_id)
        self.appends += 1
        key = StateKey(request_id, 0, f"w.{self.appends}")
        self.write(key, TopicEvent(request_id=request_id, kind=STATUS, status=FORGOTTEN, number=0, last=0, after=after))
        return key

    def clear(self, request_id: str) -> None:
        """Write the tombstones of a request that was ended."""
        known = read(self.records).remains.get(request_id)
        if known is None:
            return
        keys = [
            record.key
            for record in self.records[known.first : known.last + 1]
            if record.key.request_id == request_id and record.event is not None and record.offset < known.end
        ]
        for key in in_order_of_removal(keys):
            self.write(key, None)
        self.write(StateKey(request_id, 0, known.end_append), None)

    def compacted(self, up_to: int, *, without_tombstones: bool) -> list[StateRecord]:
        """Return what compaction of the records before an offset may leave."""
        last = {record.key: record.offset for record in self.records[:up_to]}
        return [
            record
            for record in self.records
            if record.offset >= up_to
            or (last[record.key] == record.offset and not (without_tombstones and record.event is None))
        ]


def event(append: str, number: int, last: int, after: str | None, status: str = "running") -> TopicEvent:
    return TopicEvent(
        id=f"{append}/{number}", number=number, last=last, after=after, status=status, context={"of": append}
    )


def read(records: Sequence[StateRecord]) -> PartitionState:
    state = PartitionState()
    for record in records:
        state.apply(record)
    return state


def view(state: PartitionState) -> dict[str, tuple[object, ...]]:
    """Return what a reader tells about requests."""
    return {
        request_id: (each.events, each.status, each.last_append, each.context, [e.id for e in each.held or ()])
        for request_id, each in state.listed()
    }


def test_an_append_counts_when_all_of_it_is_there() -> None:
    log = Log()
    append = log.append("r", 0, None, 3)

    assert [len(view(read(log.records[:count]))) for count in range(4)] == [0, 0, 0, 1]
    assert view(read(log.records))["r"] == (3, "running", append, {"of": append}, [f"{append}/{n}" for n in range(3)])


def test_an_append_that_a_crash_has_torn_never_counts() -> None:
    log = Log()
    first = log.append("r", 0, None, 2)
    log.append("r", 2, first, 3, torn_at=4)
    second = log.append("r", 2, first, 1)

    assert view(read(log.records))["r"] == (3, "running", second, {"of": second}, ["w.1/0", "w.1/1", "w.3/2"])


def test_of_two_that_follow_the_same_append_the_first_counts() -> None:
    log = Log()
    base = log.append("r", 0, None, 1)
    mine = log.append("r", 1, base, 2)
    log.append("r", 1, base, 4)
    last = log.append("r", 3, mine, 1)

    assert view(read(log.records))["r"][:3] == (4, "running", last)


def test_a_fork_does_not_count_where_its_numbers_fit_again_by_chance() -> None:
    log = Log()
    base = log.append("r", 0, None, 1)
    mine = log.append("r", 1, base, 3)
    # Another process has not seen it, and goes on from what it has written itself.
    lost = log.append("r", 1, base, 1)
    lost = log.append("r", 2, lost, 2)
    log.append("r", 4, lost, 1)

    assert view(read(log.records))["r"][:3] == (4, "running", mine)


def test_a_request_that_is_forgotten_begins_again_from_nothing() -> None:
    log = Log()
    old = log.append("r", 0, None, 2)
    log.end("r")
    assert view(read(log.records)) == {}

    log.append("r", 2, old, 1)
    new = log.append("r", 0, None, 1)
    assert view(read(log.records))["r"][:3] == (1, "running", new)

    log.clear("r")
    assert view(read(log.records))["r"][:3] == (1, "running", new)
    assert read(log.records).remains == {}


def test_an_end_that_names_an_append_counts_behind_that_one_only() -> None:
    log = Log()
    old = log.append("r", 0, None, 2)
    new = log.append("r", 2, old, 1)
    log.end("r", old)
    assert view(read(log.records))["r"][:3] == (3, "running", new)
    assert read(log.records).remains == {}

    # What is cleared lies between its first record and its last, however much others have written since.
    log.append("other", 0, None, 3)
    end = log.end("r", new)
    assert list(view(read(log.records))) == ["other"]
    assert read(log.records).remains == {"r": (0, 3, 7, end.append)}


def test_what_finished_is_not_held_and_can_be_read_again() -> None:
    log = Log()
    first = log.append("r", 0, None, 2)
    log.append("other", 0, None, 1)
    log.write(StateKey("r", 2, "z"), event("z", 2, 2, first, "finished"))

    state = read(log.records)

    found = state.request("r")
    assert found is not None
    assert (found.held, found.context, found.status, found.events) == (None, None, "finished", 3)
    assert state.held_bytes == 10
    again = replayed(record for record in log.records if record.key.request_id == "r")
    assert again is not None
    assert again.held is not None
    assert [e.id for e in again.held] == ["w.1/0", "w.1/1", "z/2"]
    assert (again.created_at_ms, again.updated_at_ms) == (found.created_at_ms, found.updated_at_ms)


def test_what_is_held_is_dropped_in_the_order_in_which_it_came() -> None:
    log = Log()
    for request_id in "abc":
        log.append(request_id, 0, None, 2)
    state = read(log.records)
    assert state.held_bytes == 60

    state.drop_held()
    state.drop_held()

    assert [each.held is None for _, each in state.listed()] == [True, True, False]
    assert state.held_bytes == 20


# --- whatever happens -----------------------------------------------------------------------------------------------

#: Who does what: appends at the end as this writer knows it, perhaps torn; looks at the log; forgets whatever it is, or
#: what it knows; clears.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "torn", "look", "status", "forget", "age", "clear"]),
        st.integers(0, 2),
        st.sampled_from(["a", "b/1"]),
        st.integers(1, 3),
    ),
    max_size=30,
)


def story(steps: Sequence[tuple[str, int, str, int]]) -> tuple[Log, list[int]]:
    """Return a log as three writers make it, each by what it knows, and the offsets where requests were cleared."""
    log = Log()
    known: list[dict[str, tuple[int, str | None]]] = [{}, {}, {}]
    cleared: list[int] = []
    for what, writer, request_id, count in steps:
        first, after = known[writer].get(request_id, (0, None))
        if what == "look":
            state = read(log.records)
            known[writer] = {name: (each.events, each.last_append) for name, each in state.listed()}
        elif what == "append":
            known[writer][request_id] = (first + count, log.append(request_id, first, after, count))
        elif what == "torn":
            # It has ended, and another one takes its place that knows nothing.
            log.append(request_id, first, after, count + 1, torn_at=first + count)
            known[writer] = {}
        elif what == "status":
            log.appends += 1
            record = TopicEvent(kind=STATUS, status="waiting", number=first, last=first, after=after)
            log.write(StateKey(request_id, first, f"w.{log.appends}"), record)
            known[writer][request_id] = (first, f"w.{log.appends}")
        elif what == "forget":
            log.end(request_id)
            known[writer].pop(request_id, None)
        elif what == "age":
            if after is not None:
                end = log.end(request_id, after)
                if count == 1 and request_id not in read(log.records).remains:
                    log.write(end, None)
        elif request_id in read(log.records).remains:
            log.clear(request_id)
            cleared.append(len(log.records))
    return log, cleared


def prefixes(log: Log) -> Iterator[tuple[int, PartitionState]]:
    state = PartitionState()
    yield 0, state
    for record in log.records:
        state.apply(record)
        yield record.offset + 1, state


@given(STEPS)
def test_events_that_count_stay_and_only_grow_until_their_request_is_forgotten(
    steps: list[tuple[str, int, str, int]],
) -> None:
    log, _ = story(steps)
    before: dict[str, list[str]] = {}
    for offset, state in prefixes(log):
        now = {name: [e.id for e in each.held or ()] for name, each in state.listed()}
        last = log.records[offset - 1].event if offset else None
        forgotten = last is not None and last.status == FORGOTTEN
        for request_id, ids in before.items():
            if not (forgotten and log.records[offset - 1].key.request_id == request_id):
                assert now[request_id][: len(ids)] == ids
        for ids in now.values():
            assert [int(i.rpartition("/")[2]) for i in ids] == list(range(len(ids)))
        before = now


@given(STEPS, st.integers(0, 100), st.booleans())
def test_compaction_changes_nothing_that_a_reader_tells(
    steps: list[tuple[str, int, str, int]], share: int, without_tombstones: bool
) -> None:
    log, _ = story(steps)

    left = log.compacted(len(log.records) * share // 100, without_tombstones=without_tombstones)

    assert view(read(left)) == view(read(log.records))


@given(STEPS)
def test_a_reader_that_stops_and_goes_on_tells_what_one_tells_that_read_it_all(
    steps: list[tuple[str, int, str, int]],
) -> None:
    log, _ = story(steps)
    whole = read(log.records)

    for request_id, each in whole.listed():
        records = [r for r in log.records if r.key.request_id == request_id]
        span = [r for r in records if each.first_offset <= r.offset <= each.last_offset]
        again = replayed(span)
        assert again is not None
        assert (again.events, again.status, again.last_append) == (each.events, each.status, each.last_append)
        assert [e.id for e in again.held or ()] == [e.id for e in each.held or ()]


@given(STEPS)
def test_when_all_that_is_forgotten_is_cleared_compaction_leaves_nothing_of_it(
    steps: list[tuple[str, int, str, int]],
) -> None:
    log, _ = story([*steps, ("forget", 0, "a", 1), ("clear", 0, "a", 1)])

    left = log.compacted(len(log.records), without_tombstones=True)

    assert [record for record in left if record.key.request_id == "a"] == []
