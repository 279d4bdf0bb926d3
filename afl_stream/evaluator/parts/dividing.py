"""Another number of files for a store: its rows are copied, then the new files count, and the old ones are kept."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from afl.core.probes import Probe, no_probe
from afl_stream.evaluator.parts.part_locks import held
from afl_stream.evaluator.stores import parts_index
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.store_parts import StoreParts, part_path, parts_of, possible_files, write_parts

_log = logging.getLogger(__name__)

#: SQLite's files beside one of its files.
_BESIDE: Final = ("-wal", "-shm", "-journal")
_WHILE_NONE_RUNS: Final = "a store is divided while no evaluator runs: end the command that has started it first"


class Division(NamedTuple):
    """What a division has set aside, under new names: the files that were the store, and those that were none."""

    kept: list[Path]
    strays: list[Path]


def divide(config: StreamConfig, count: int, *, probe: Probe = no_probe) -> Division:
    """Divide the store into so many files while no evaluator runs; return what was set aside.

    In this order:
      1. take the old files, so that no process opens them,
      2. set aside what earlier attempts have left under names of parts, and copy every row (`dividing.copied`),
      3. say that the new files count (`dividing.decided`): until then no process can write to the old ones,
      4. set the old files aside: they are renamed, and nothing reads them any more.

    An error in 2 deletes what was made of the new files. A crash before 3 is done leaves that, and the store as it was;
    the next attempt begins again. After 3 the new files are the store, and old ones that keep their names are not
    looked at, until the next attempt (or `set_strays_aside`) sets them aside.

    Raises StoreUnavailable when a file is in use, or cannot be read.
    """
    from afl.stores.sqlite.dividing import Placing, copy_divided

    base = config.store_path
    old, new = _files(base, parts_of(base)), StoreParts.new(count)
    made = _files(base, new)
    with ExitStack() as locks:
        strays = _strays(base, old)
        for path in dict.fromkeys([*old, *made, *strays]):
            locks.enter_context(held(path, _WHILE_NONE_RUNS))
        set_aside = _all_aside(strays, new.id)
        placing = Placing(of_workflow=parts_index(config, count), of_partition=lambda number: number % count)

        is_copied = False

        def decide() -> None:
            nonlocal is_copied
            is_copied = True
            probe("dividing.copied")
            write_parts(base, new)

        try:
            copy_divided(old, made, config.prefix, placing, decide)
        except BaseException:
            # People would take half a copy for a part of the store. Whole copies may count already: they stay.
            if not is_copied:
                _remove(made)
            raise
        probe("dividing.decided")
        return Division(_all_aside(old, new.id), set_aside)


def set_strays_aside(config: StreamConfig) -> list[Path]:
    """Set aside what a division that was interrupted has left under names of parts; return it, under its new names.

    The store that counts stays as it is. Raises StoreUnavailable when such a file is in use.
    """
    base = config.store_path
    parts = parts_of(base)
    strays = _strays(base, _files(base, parts))
    with ExitStack() as locks:
        for path in strays:
            locks.enter_context(held(path, _WHILE_NONE_RUNS))
        return _all_aside(strays, StoreParts.new(1).id)


def _strays(base: Path, files: Sequence[Path]) -> list[Path]:
    """Return what is called like a file of the store, and is none of its files."""
    return [path for path in possible_files(base) if path not in files]


def _files(base: Path, parts: StoreParts | None) -> Sequence[Path]:
    if parts is None or parts.count == 1:
        return [base]
    return [part_path(base, part) for part in parts.all()]


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        for beside in ("", *_BESIDE):
            path.with_name(path.name + beside).unlink(missing_ok=True)


def _all_aside(paths: Sequence[Path], suffix: str) -> list[Path]:
    return [aside for path in paths if (aside := _set_aside(path, suffix)) is not None]


def _set_aside(path: Path, suffix: str) -> Path | None:
    """Rename a file, and SQLite's files beside it, so that nothing takes it for the store's; None without one."""
    if not path.exists():
        return None
    aside = path.with_name(f"{path.name}.before-{suffix}")
    for beside in _BESIDE:
        other = path.with_name(path.name + beside)
        if other.exists():
            os.replace(other, aside.with_name(aside.name + beside))
    os.replace(path, aside)
    return aside
