"""Progress in a partition: the offset to commit and the metadata that is committed with it."""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol

from afl_stream.transport import CommittedOffset

#: Largest window. Its bitmap takes 2,668 characters, which leaves room for the crash counts.
MAX_WINDOW: Final = 16_000

#: Brokers refuse commit metadata over offset.metadata.max.bytes, 4,096 by default.
MAX_METADATA_CHARS: Final = 4_000

_FORM: Final = re.compile(
    r"afl1( o)?(?: r([0-9]{1,18}))?(?: f([A-Za-z0-9_-]+))?(?: c((?:[0-9]{1,9}:[0-9]{1,9},?)+))?"
    r"(?: t((?:[0-9]{1,9}:[0-9]{1,9},?)+))?\Z"
)


class Run(Protocol):
    """The run of a record's handler."""

    @property
    def is_running(self) -> bool:
        """Return whether the handler runs now. Any thread may ask."""


class Taken(NamedTuple):
    """What was taken of a batch: its first `size` records, of which the `repeated` ones must not run."""

    size: int
    repeated: Collection[int] = ()


class PartitionProgress:
    """The records of one partition that were taken, started and finished.

    `position` never passes an unfinished record. Finished records above it, the counts of records that were running
    when a process died, and the failed tries of records that are tried again travel in the metadata: the partition's
    next owner runs no finished record again, knows which records may have killed their process, and counts on.
    """

    def __init__(self, committed: CommittedOffset | None, window: int) -> None:
        self._window = min(window, MAX_WINDOW)
        self._next: int | None = None if committed is None else committed.offset
        self._taken: deque[int] = deque()
        self._unfinished: set[int] = set()
        self._running: dict[int, Run | None] = {}
        self._finished: set[int] = set()
        #: By offset, how many processes died while the record ran.
        self.crash_counts: dict[int, int] = {}
        #: By offset, how often the handler of an unfinished record has failed, and is tried again.
        self.failed_tries: dict[int, int] = {}
        #: Records before this offset may have been handled before their group lost its offsets.
        self.read_again_until = 0
        #: Whether it is committed that this process is at work.
        self.is_announced = False
        #: Offsets below this may have been started by a process that died before it could say so.
        self.doubtful_below = 0
        if committed is not None:
            noted = _decode(committed)
            self._finished, self.read_again_until = noted.finished, noted.read_again_until
            self.crash_counts, self.failed_tries = noted.crashes, noted.failed_tries
            if noted.was_at_work or self.crash_counts:
                self.doubtful_below = committed.offset + self._window

    @property
    def position(self) -> int | None:
        """The offset to commit: that of the oldest unfinished record, else the one behind all that was taken.

        None before anything was committed or taken.
        """
        return self._taken[0] if self._taken else self._next

    @property
    def is_finished(self) -> bool:
        """Return whether all records that were taken are finished."""
        return not self._taken

    def has_room_for(self, offset: int) -> bool:
        """Return whether the record is within the window past the oldest unfinished one."""
        return not self._taken or offset - self._taken[0] < self._window

    def end_of_window(self, offset: int) -> int:
        """Return the offset from which on there is no room for records, when this is the next one to be taken."""
        return (self._taken[0] if self._taken else offset) + self._window

    def is_doubtful(self, offset: int) -> bool:
        """Return whether the record's start must be committed before it runs.

        An earlier process may have started it without a trace, or no commit says yet that this process is at work.
        """
        return not self.is_announced or offset < self.doubtful_below

    def take(self, offset: int) -> bool:
        """Note that the record was read; False: it is already finished or taken, and must not run.

        Offsets come in rising order; one below the last that was taken is never new.
        """
        if self._next is not None and offset < self._next:
            return False
        self._next = offset + 1
        self._taken.append(offset)
        if offset in self._finished:
            self._advance()
            return False
        self._unfinished.add(offset)
        return True

    def take_all(self, offsets: Sequence[int]) -> Taken:
        """Take records that were read together, up to the first one past the window; see `take`."""
        if not offsets:
            return Taken(0)
        oldest = self._taken[0] if self._taken else offsets[0]
        if offsets[-1] - oldest < self._window and not self._finished and offsets[0] >= (self._next or 0):
            self._next = offsets[-1] + 1
            self._taken.extend(offsets)
            self._unfinished.update(offsets)
            return Taken(len(offsets))
        repeated: set[int] = set()
        for count, offset in enumerate(offsets):
            if not self.has_room_for(offset):
                return Taken(count, repeated)
            if not self.take(offset):
                repeated.add(offset)
        return Taken(len(offsets), repeated)

    def crashes(self, offset: int) -> int:
        """Return how many times the record was started by a process that died before it was finished."""
        return self.crash_counts.get(offset, 0)

    def start(self, offset: int, run: Run | None = None) -> None:
        """Note that the record runs now, as long as `run` says, or until it is paused or finished."""
        self._running[offset] = run

    def pause(self, offset: int) -> None:
        """Note that the record runs no longer and did no harm; it is still unfinished."""
        self._running.pop(offset, None)

    def finish(self, offset: int) -> None:
        """Note that nothing is left to do for this record. Raises KeyError when it was not taken."""
        self._unfinished.remove(offset)
        self._running.pop(offset, None)
        self.crash_counts.pop(offset, None)
        self.failed_tries.pop(offset, None)
        self._finished.add(offset)
        self._advance()

    def finish_all(self, offsets: Sequence[int]) -> int:
        """Note that nothing is left to do for these records, and return how many of them were unfinished."""
        taken, count = self._taken, len(offsets)
        if (
            not (self._finished or self._running or self.crash_counts or self.failed_tries)
            and list(islice(taken, count)) == offsets
        ):
            # The oldest ones, in their order, as nearly always.
            self._unfinished.difference_update(offsets)
            for _ in range(count):
                taken.popleft()
            return count
        done = self._unfinished.intersection(offsets)
        self._unfinished -= done
        self._finished |= done
        for notes in (self._running, self.crash_counts, self.failed_tries):
            for offset in notes.keys() & done:
                del notes[offset]
        self._advance()
        return len(done)

    def checkpoint(self, *, clean: bool = False) -> CommittedOffset | None:
        """Return what to commit. `clean`: this member leaves in good order, so running records are not crashes."""
        position = self.position
        if position is None:
            return None
        return CommittedOffset(offset=position, metadata=self._metadata(position, clean))

    def _advance(self) -> None:
        while self._taken and self._taken[0] not in self._unfinished:
            self._finished.discard(self._taken.popleft())

    def _metadata(self, position: int, clean: bool) -> str:
        # Records that were deleted before they were read again leave their marks below the position.
        finished = {offset for offset in self._finished if offset >= position}
        counts = {offset: count for offset, count in self.crash_counts.items() if offset >= position}
        if not clean:
            # A handler that has ended did no harm, whether or not its answer is acknowledged.
            for offset, run in self._running.items():
                if run is None or run.is_running:
                    counts[offset] = counts.get(offset, 0) + 1
        text = "afl1" if clean else "afl1 o"
        if self.read_again_until > position:
            text += f" r{self.read_again_until}"
        if finished:
            text += " f" + _bitmap(position, finished)
        # The bitmap goes first, at its full length: a lost count costs one crash more, a lost bit costs work twice.
        text += _counts(" c", position, counts, MAX_METADATA_CHARS - len(text))
        # Last, and only where there are any: releases that do not know them read no metadata that has them.
        text += _counts(" t", position, self.failed_tries, MAX_METADATA_CHARS - len(text))
        return text if text != "afl1" else ""


def _counts(mark: str, position: int, counts: Mapping[int, int], room: int) -> str:
    """Return the highest counts that there is room for, each with its offset from the position; "": none."""
    room -= len(mark)
    kept: list[str] = []
    for offset, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if offset < position:
            continue
        entry = f"{offset - position}:{count}"
        room -= len(entry) + 1
        if room < 0:
            break
        kept.append(entry)
    return mark + ",".join(kept) if kept else ""


def was_at_work(committed: CommittedOffset) -> bool:
    """Return whether the member that committed this was at work then: it did not leave in good order after it."""
    return _decode(committed).was_at_work


def _bitmap(position: int, finished: set[int]) -> str:
    bits = 0
    for offset in finished:
        bits |= 1 << (offset - position)
    return base64.urlsafe_b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).rstrip(b"=").decode()


class _Noted(NamedTuple):
    """The content of a commit's metadata."""

    finished: set[int]
    crashes: dict[int, int]
    failed_tries: dict[int, int]
    was_at_work: bool = False
    read_again_until: int = 0


def _decode(committed: CommittedOffset) -> _Noted:
    """Read the metadata. Metadata of another program or a newer release counts as empty: the work is done again."""
    match = _FORM.match(committed.metadata)
    if match is None:
        return _Noted(set(), {}, {})
    finished: set[int] = set()
    at_work, read_again, bitmap, counts, tries = match.groups()
    if bitmap is not None and len(bitmap) <= MAX_METADATA_CHARS:
        try:
            packed = base64.urlsafe_b64decode(bitmap + "=" * (-len(bitmap) % 4))
        except binascii.Error:
            return _Noted(set(), {}, {})
        bits = int.from_bytes(packed, "little")
        finished = {committed.offset + i for i in range(bits.bit_length()) if bits >> i & 1}
    crashes, failed_tries = _counts_of(committed.offset, counts), _counts_of(committed.offset, tries)
    return _Noted(finished, crashes, failed_tries, at_work is not None, int(read_again or 0))


def _counts_of(position: int, text: str | None) -> dict[int, int]:
    counts: dict[int, int] = {}
    for entry in (text or "").split(","):
        if entry:
            delta, _, count = entry.partition(":")
            counts[position + int(delta)] = int(count)
    return counts
