"""Dependencies of compiled steps: the meaning of a name in a block, and the references of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Node = Mapping[str, Any]


class Scope:
    """The steps that a place in a block may refer to, by name; inner names hide outer ones."""

    def __init__(self, outer: Scope | None = None, variable: str | None = None) -> None:
        """`variable` is the variable of the foreach around this block: a name that does not mean a step."""
        self._outer = outer
        self._ids: dict[str, str | None] = {} if variable is None else {variable: None}

    def add(self, name: str, step_id: str) -> None:
        self._ids[name] = step_id

    def find(self, name: str) -> str | None:
        """Return the id of the step that a name means here, or None."""
        if name in self._ids:
            return self._ids[name]
        return self._outer.find(name) if self._outer is not None else None


def needs(node: object, scope: Scope) -> list[str]:
    """Return the ids of the steps that a node itself refers to, each once, without the references of its blocks."""
    found: dict[str, None] = {}
    for path in _references(node):
        step_id = scope.find(str(path[0]))
        if step_id is not None:
            found[step_id] = None
    return list(found)


def own_parts(block: Node) -> list[object]:
    """Return the parts that a block needs before it starts: the source of its foreach, the conditions of its cases."""
    clause, when = block.get("foreach"), block.get("when")
    parts: list[object] = [] if clause is None else [clause.get("iterable")]
    return parts + [case.get("condition") for case in (when or {}).get("cases") or ()]


def yields(block: Node) -> list[Node]:
    """Return the yields of a block."""
    one = block.get("yield")
    return [*([one] if one is not None else []), *(block.get("yields") or ())]


def is_plain(block: Node) -> bool:
    """Say whether a later `when` of the same declaration sees the steps of this block."""
    return not any(block.get(part) for part in ("foreach", "when", "script"))


def _references(node: object) -> Iterator[Sequence[str]]:
    if isinstance(node, Mapping):
        if node.get("type") == "StepRef":
            yield node["path"]
        else:
            for value in node.values():
                yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)
