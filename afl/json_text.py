"""Write JSON values as text, in the layout of the library but faster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence


def to_text(value: object, indent: int | None) -> str:
    """Return a JSON value as text.

    Before Python 3.13 the library's encoder falls back to slow code as soon as it indents: 80 ms for a program of 4,000
    lines that takes 220 ms to compile. This is the same layout in a quarter of the time. From 3.13 on the library takes
    half of ours; once 3.12 is not supported, all but the two calls of `json.dumps` can go.
    """
    if indent is None:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if sys.version_info >= (3, 13):
        return json.dumps(value, ensure_ascii=False, indent=indent)
    pieces: list[str] = []
    _write(value, _Depth("\n", " " * indent), pieces.append)
    return "".join(pieces)


_encode_string = json.encoder.encode_basestring


class _Depth:
    """The layout of one depth: the text in front of the members of an object, by their keys."""

    __slots__ = ("_deeper", "end", "first", "later", "line", "step")

    def __init__(self, end: str, step: str) -> None:
        self.end = end
        self.step = step
        self.line = end + step
        self.first: dict[str, str] = {}
        self.later: dict[str, str] = {}
        self._deeper: _Depth | None = None

    def deeper(self) -> _Depth:
        found = self._deeper
        if found is None:
            found = self._deeper = _Depth(self.line, self.step)
        return found

    def learn(self, key: str) -> None:
        head = f"{self.line}{_encode_string(key)}: "
        self.first[key] = "{" + head
        self.later[key] = "," + head


def _write(value: object, depth: _Depth, put: Callable[[str], object]) -> None:
    if isinstance(value, dict) and value:
        heads, later = depth.first, depth.later
        for key, member in value.items():
            if key not in later:
                depth.learn(key)
            put(heads[key])
            heads = later
            # Most members are of these two types, and a call for each would double the time.
            kind = type(member)
            if kind is str:
                put(_encode_string(member))
            elif kind is int:
                put(str(member))
            else:
                _write(member, depth.deeper(), put)
        put(depth.end + "}")
    elif isinstance(value, str):
        put(_encode_string(value))
    # An isinstance check of the abstract class alone is slow.
    elif isinstance(value, (list, Sequence)) and value:
        before = "[" + depth.line
        for item in value:
            put(before)
            before = "," + depth.line
            _write(item, depth.deeper(), put)
        put(depth.end + "]")
    else:
        put(json.dumps(value))
