"""Lists of a store in several files come in pages, as those of one file do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.engine.model.store import Batch, ScheduleChange, ScheduleRow
from afl.stores.public.persistence import EngineStore
from afl_stream.evaluator.parts.dividing import divide
from afl_stream.evaluator.parts.parted_store import ROUTES, PartedStore
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.settings.config import EmbeddedSettings, KafkaSettings, StreamConfig


def test_more_rows_than_a_page_has_are_read_whole_from_several_files(tmp_path: Path) -> None:
    config = StreamConfig(
        kafka=KafkaSettings(bootstrap="127.0.0.1:1"), embedded=EmbeddedSettings(data_dir=str(tmp_path / "data"))
    )
    ids = {f"nightly-{number}" for number in range(2_500)}
    with closing(open_configured_store(config)) as store:
        rows = [ScheduleRow(id=one, revision=1, next_at_ms=5, document={}) for one in ids]
        store.commit_batch(Batch(schedules=[ScheduleChange(row.id, 0, row) for row in rows]))
    divide(config, 2)

    with closing(open_configured_store(config)) as parted:
        found: list[str] = []
        while page := parted.schedules(after=found[-1] if found else ""):
            found += [row.id for row in page]

    assert len(found) == len(ids)
    assert set(found) == ids


class FullPart:
    """A part of a store that has more rows of each kind than a page."""

    def __getattr__(self, name: str) -> Callable[..., list[Row]]:
        return lambda *args, **named: [Row()] * 1_500


class Row:
    """A row of any kind: all its fields are 0."""

    def __getattr__(self, name: str) -> int:
        return 0

    def __iter__(self) -> Iterator[int]:
        return iter((0,))

    def __str__(self) -> str:
        return "0"


#: Lists that all parts have together, and how long one is where the caller names no limit.
LIMITS = {
    name: parameter.default
    for name in ROUTES
    if (parameter := inspect.signature(getattr(EngineStore, name)).parameters.get("limit")) is not None
    and parameter.default is not parameter.empty
    and name not in ("history", "outbox")
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_list_of_all_parts_is_no_longer_than_that_of_one(name: str) -> None:
    parted = PartedStore([FullPart(), FullPart()], lambda one: 0)  # type: ignore[list-item]  # its lists are enough

    assert len(getattr(parted, name)()) == LIMITS[name]
