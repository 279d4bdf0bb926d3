"""Annotations of a compiled program: source places and doc comments, kept beside its canonical text.

A fingerprint covers what a program does, so the canonical text holds no annotations. They are taken out here, packed,
and put back when a program is read, so that an error can name the line of the source. Each annotation is known by the
number of its node in a walk over the bare tree. Only places and doc comments are put back, and only on nodes that may
have one: a forged annotation cannot change what a program does.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, Final

#: The keys of annotations as a canonical text spells them: a text without these has no annotations.
_MARKS: Final = (b'"location":', b'"doc":')
#: Nodes that may have a doc comment.
_DOCUMENTED: Final = frozenset({"Namespace", "FacetDecl", "EventFacetDecl", "WorkflowDecl", "SchemaDecl"})
#: Nodes whose `value` is data: an object in there is not a node, even if it looks like one.
_LITERALS: Final = frozenset({"String", "Int", "Double", "Boolean", "Null"})
_POSITION: Final = ("line", "column", "endLine", "endColumn")
_POSITION_KEYS: Final = frozenset(_POSITION)
_PLACE_KEYS: Final = frozenset({*_POSITION, "sourceId", "provenance"})
_DOC_KEYS: Final = frozenset({"description", "params", "returns"})
_SLOT_KEYS: Final = frozenset({"name", "description"})
#: The largest line or column that is accepted.
_LARGEST: Final = 2**31 - 1
#: The most bytes that annotations may unpack to: a bound against decompression bombs.
_MOST_UNPACKED: Final = 64 * 1024 * 1024


def may_be_annotated(text: bytes) -> bool:
    """Say whether a canonical text can have annotations in it. A text that can nearly always does."""
    return any(mark in text for mark in _MARKS)


def take_annotations(tree: object) -> list[Any]:
    """Take the annotations out of a tree of plain JSON, and return them: [number of the node, place, doc comment]."""
    taken: list[Any] = []
    for number, node in enumerate(_nodes(tree)):
        place = node.pop("location") if "location" in node and _has_place(node) else None
        doc = node.pop("doc") if "doc" in node and _has_doc(node) else None
        if place is not None or doc is not None:
            taken.append([number, _short(place), doc])
    return taken


def pack(annotations: list[Any]) -> bytes:
    """Pack annotations for a store or a topic; empty where there are none."""
    if not annotations:
        return b""
    text = json.dumps(annotations, sort_keys=True, separators=(",", ":"))
    return zlib.compress(text.encode(), 6)


def put_annotations(tree: object, packed: bytes) -> None:
    """Put packed annotations back into the bare tree that they were taken from.

    Annotations of another tree and damaged ones are skipped: they only affect what an error message says.
    """
    given = _unpacked(packed)
    for number, node in enumerate(_nodes(tree)):
        place, doc = given.get(number, (None, None))
        if place is not None:
            _put(node, "location", place, _has_place)
        if doc is not None:
            _put(node, "doc", doc, _has_doc)


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Yield the objects of a tree, annotations left out, in an order that follows from the bare tree alone.

    The walk keeps its own stack instead of recursing: a chain of operators may be longer than Python's stack is deep.
    """
    pending: list[Any] = [tree]
    while pending:
        node = pending.pop()
        if node.__class__ is list:
            pending += [child for child in node if child.__class__ is dict or child.__class__ is list]
        elif node.__class__ is dict:
            yield node
            for key, child in node.items():
                if (child.__class__ is dict or child.__class__ is list) and not (
                    (key == "location" and _has_place(node))
                    or (key == "doc" and _has_doc(node))
                    or (key == "value" and _is_literal(node))
                ):
                    pending.append(child)


def _put(node: dict[str, Any], key: str, value: object, fits: Any) -> None:
    if key in node:
        return
    node[key] = value
    if not fits(node):
        del node[key]


def _is_literal(node: dict[str, Any]) -> bool:
    kind = node.get("type")
    return isinstance(kind, str) and kind in _LITERALS


def _has_place(node: dict[str, Any]) -> bool:
    place = node["location"]
    if place.__class__ is not dict or "type" not in node or not place or not _PLACE_KEYS.issuperset(place):
        return False
    for key, value in place.items():
        if key == "sourceId":
            fits = isinstance(value, str)
        elif key == "provenance":
            fits = isinstance(value, dict) and all(isinstance(part, str) for part in value.values())
        else:
            fits = value.__class__ is int and 0 <= value <= _LARGEST
        if not fits:
            return False
    return True


def _has_doc(node: dict[str, Any]) -> bool:
    doc, kind = node["doc"], node.get("type")
    return (
        isinstance(doc, dict)
        and isinstance(kind, str)
        and kind in _DOCUMENTED
        and _DOC_KEYS.issuperset(doc)
        and isinstance(doc.get("description", ""), str)
        and all(_are_slots(doc.get(key, [])) for key in ("params", "returns"))
    )


def _are_slots(slots: object) -> bool:
    return isinstance(slots, list) and all(
        isinstance(slot, dict) and _SLOT_KEYS.issuperset(slot) and all(isinstance(text, str) for text in slot.values())
        for slot in slots
    )


def _short(place: dict[str, Any] | None) -> list[int] | dict[str, Any] | None:
    """Return a place as numbers alone, where it has nothing else."""
    if place is not None and place.keys() == _POSITION_KEYS:
        return [place[key] for key in _POSITION]
    return place


def _unpacked(packed: bytes) -> dict[int, tuple[Any, Any]]:
    unpack = zlib.decompressobj()
    try:
        entries = json.loads(unpack.decompress(packed, _MOST_UNPACKED))
        given = {number: (_long(place), doc) for number, place, doc in entries}
    except (zlib.error, ValueError, TypeError, RecursionError):
        return {}
    return given


def _long(place: object) -> object:
    return dict(zip(_POSITION, place, strict=True)) if isinstance(place, list) else place
