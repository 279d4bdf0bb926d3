"""The room for external events whose workflows do not exist yet, by count and by bytes."""

from __future__ import annotations

import pytest

from afl.engine.model.store import Batch, HistoryKind, HistoryRow
from afl.stores.memory.store import MemoryStore
from afl_stream.evaluator.external.early_room import EarlyClaim, EarlyRoom
from afl_stream.event_errors import TooManyEarlyEvents
from afl_stream.limits import MAX_PENDING_EVENT_BYTES
from afl_stream.settings.sections import EvaluatorSettings


def test_the_events_of_one_workflow_take_a_part_of_the_room_only() -> None:
    claim = EarlyClaim(EarlyRoom(MemoryStore(), EvaluatorSettings()))
    claim.take("w", "go", MAX_PENDING_EVENT_BYTES - 1, 0)
    claim.take("w", "go", 1, 0)

    with pytest.raises(TooManyEarlyEvents, match=r"67108864 bytes of events wait for it.*MAX_PENDING_EVENT_BYTES"):
        claim.take("w", "go", 1, 0)
    claim.take("v", "go", 1, 0)


def test_bytes_in_the_store_and_of_committed_units_count() -> None:
    store = MemoryStore()
    row = HistoryRow("w", 0, HistoryKind.EXTERNAL_EVENT, 1, 0, "go", "e", "x" * 600, is_pending=True, expires_at_ms=9)
    store.commit_batch(Batch(history=[row]))
    room = EarlyRoom(store, EvaluatorSettings(max_early_bytes=1_000))
    first = EarlyClaim(room)
    first.take("v", "go", 200, 0)
    first.committed()

    second = EarlyClaim(room)
    with pytest.raises(TooManyEarlyEvents, match=r"evaluator\.max_early_bytes = 1000"):
        second.take("u", "go", 200, 0)
    # A unit that starts a workflow frees the room of its events.
    second.adopt("w", 1)
    second.committed()
    EarlyClaim(room).take("u", "go", 700, 0)
