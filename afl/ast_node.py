"""The base class of the syntax tree's nodes, and the place of a node in its text."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from afl.core.frozen import initializer, refuse_deleting, refuse_setting, set_state

_T = TypeVar("_T")


class DrawnId(str):
    """An id that was drawn, not given: it tells nodes apart while a program runs, and is never written."""

    __slots__ = ()


class SourceLocation(NamedTuple):
    """A stretch of source text: 1-based lines and columns, the end column exclusive."""

    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None
    source_id: str | None = None


#: The slot of `node_id` itself, behind the property that draws an id.
_given_ids: Any = None


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def node(cls: type[_T]) -> type[_T]:
    """Make a class a frozen dataclass with slots, as `dataclass` would, at half the cost of classes and instances.

    Every node class is made here. Generating all of them with `dataclass` takes longer than compiling a small file, so
    `dataclass` only collects the fields, ASTNode has what all nodes share, and `__init__` is our own.
    """
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    slots = {} if _given_ids is None else {"node_id": _given_ids}
    made.__init__ = initializer(made, slots)  # type: ignore[method-assign]  # checked by dataclass_transform
    return made


class _Written(str):
    """A piece of text that is ready to be written, unlike a text that is a value."""

    __slots__ = ()


@node
class ASTNode:
    """The base of all nodes: what a node has besides its own fields."""

    node_id: str = field(default="", kw_only=True, compare=False)
    location: SourceLocation | None = field(default=None, kw_only=True, compare=False)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        # An own stack instead of recursion, as in __repr__: a chain of operators is as deep as it is long.
        pending: list[tuple[object, object]] = [(self, other)]
        while pending:
            one, another = pending.pop()
            if isinstance(one, ASTNode):
                if type(one) is not type(another):
                    return False
                pending += [(getattr(one, name), getattr(another, name)) for name in reversed(one._compared())]
            elif isinstance(one, list) and isinstance(another, list):
                if len(one) != len(another):
                    return False
                pending += reversed(list(zip(one, another, strict=True)))
            elif one != another:
                return False
        return True

    #: Nodes hold lists and therefore have no hash, like lists.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pieces: list[str] = []
        pending: list[object] = [self]
        while pending:
            item = pending.pop()
            if isinstance(item, _Written):
                pieces.append(item)
            elif isinstance(item, ASTNode):
                parts: list[object] = [_Written(f"{type(item).__name__}(")]
                for number, name in enumerate(item._compared()):
                    parts += [_Written(f"{', ' if number else ''}{name}="), getattr(item, name)]
                pending += reversed([*parts, _Written(")")])
            elif isinstance(item, list):
                parts = [_Written("[")]
                for number, member in enumerate(item):
                    parts += [_Written(", "), member] if number else [member]
                pending += reversed([*parts, _Written("]")])
            else:
                pieces.append(repr(item))
        return "".join(pieces)

    @classmethod
    def _compared(cls) -> list[str]:
        return [item.name for item in fields(cls) if item.compare]

    __setattr__ = refuse_setting
    __delattr__ = refuse_deleting
    __setstate__ = set_state


class _NodeId:
    """The `node_id` of a node: the id that its slot holds. An id that was not given is drawn when it is first read.

    Drawing an id takes longer than parsing the node, and most ids are never read.
    """

    _drawing = threading.Lock()

    def __get__(self, node: ASTNode | None, owner: type[ASTNode]) -> object:
        if node is None:
            return self
        known: str = _given_ids.__get__(node)
        if known:
            return known
        from uuid import uuid4

        with self._drawing:
            known = _given_ids.__get__(node)
            if not known:
                known = DrawnId(uuid4())
                _given_ids.__set__(node, known)
        return known

    def __set__(self, node: ASTNode, value: str) -> None:
        # Copies and pickles only: nodes are frozen.
        _given_ids.__set__(node, value)


_given_ids = ASTNode.__dict__["node_id"]
ASTNode.node_id = _NodeId()  # type: ignore[assignment]  # what reads as a str


def given_id(node: ASTNode) -> str:
    """Return the id that a node was given; None for an id that was only drawn."""
    known: str = _given_ids.__get__(node)
    return "" if type(known) is DrawnId else known
