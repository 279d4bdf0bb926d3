"""What acknowledges the messages behind an item of a stream: one message, a part of one, or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from afl_stream.transport import Headers


class Acknowledgement(Protocol):
    """What stands behind an item: a Message keeps this port, too."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def where(self) -> str:
        """Topic, partition and offset in words."""

    @property
    def is_lost(self) -> bool:
        """Whether the partition is another member's by now, which gets all of it again."""

    def ack(self) -> None: ...


class SharedAck:
    """The acknowledgement of a message that became several items: it is given when the last of them is acknowledged.

    It stays open while more items may come.
    """

    __slots__ = ("_count", "_open", "whole")

    def __init__(self, whole: Acknowledgement) -> None:
        self.whole = whole
        self._count = 0
        self._open = 1

    def part(self) -> PartAck:
        """Return the acknowledgement of one more item."""
        self._open += 1
        self._count += 1
        return PartAck(self, self._count)

    def release(self) -> None:
        """Note that an item is finished with, or that no more items come."""
        self._open -= 1
        if not self._open:
            self.whole.ack()


class PartAck:
    """The acknowledgement of one item of several."""

    __slots__ = ("_is_given", "_number", "_shared")

    def __init__(self, shared: SharedAck, number: int) -> None:
        self._shared = shared
        self._number = number
        self._is_given = False

    @property
    def key(self) -> bytes | None:
        return self._shared.whole.key

    @property
    def headers(self) -> Headers:
        return self._shared.whole.headers

    @property
    def where(self) -> str:
        return f"{self._shared.whole.where}, item {self._number}"

    @property
    def is_lost(self) -> bool:
        return self._shared.whole.is_lost

    def ack(self) -> None:
        if not self._is_given:
            self._is_given = True
            self._shared.release()


class BatchAck:
    """The acknowledgement of all messages of a batch."""

    __slots__ = ("_all",)

    def __init__(self, each: Sequence[Acknowledgement]) -> None:
        self._all = each

    @property
    def key(self) -> bytes | None:
        return self._all[0].key

    @property
    def headers(self) -> Headers:
        return self._all[0].headers

    @property
    def where(self) -> str:
        return f"{self._all[0].where} to {self._all[-1].where}"

    @property
    def is_lost(self) -> bool:
        return all(each.is_lost for each in self._all)

    def ack(self) -> None:
        for each in self._all:
            each.ack()
