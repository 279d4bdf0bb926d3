"""Schemas that have the fingerprint of another one: CRC-64 is linear, so a text of any fingerprint can be made."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from afl_stream.wire.avro.schema import WriterSchema, fingerprint_of, parse_schema_text

#: Letters that differ in three bits, each of which may be set or not.
_LETTERS: Final = "acegikmo"
_FREE: Final = _LETTERS[0] * 24


def forged(genuine: WriterSchema, change: Callable[[Any, str], None]) -> WriterSchema:
    """Return another schema of the genuine one's fingerprint.

    `change` changes its JSON, and gives a type in it the name that it is handed.
    """
    document = json.loads(genuine.text)
    change(document, _FREE)
    text = json.dumps(document)
    canonical = parse_schema_text(text).canonical
    at = canonical.index(_FREE)
    start = fingerprint_of(canonical)

    def with_bit(bit: int) -> int:
        place, letter = at + bit // 3, _LETTERS[1 << bit % 3]
        return fingerprint_of(canonical[:place] + letter + canonical[place + 1 :]) ^ start

    chosen = _sum_to(genuine.fingerprint ^ start, [with_bit(bit) for bit in range(3 * len(_FREE))])
    letters = [sum(1 << bit % 3 for bit in chosen if bit // 3 == place) for place in range(len(_FREE))]
    made = parse_schema_text(text.replace(_FREE, "".join(_LETTERS[number] for number in letters)))
    assert made.fingerprint == genuine.fingerprint
    assert made.canonical != genuine.canonical
    return made


def swap_payload_fields(document: Any, name: str) -> None:
    """Have the two fields of an event's payload change places."""
    (payload,) = [field["type"] for field in document["fields"] if field["name"] == "payload"]
    payload["name"] = name
    payload["fields"].reverse()


def _sum_to(target: int, vectors: list[int]) -> set[int]:
    """Return which of the vectors add up to the target, bit by bit without carry: Gauss's elimination."""
    rows: dict[int, tuple[int, set[int]]] = {}
    for number, vector in enumerate(vectors):
        value, made_of = _reduced(vector, {number}, rows)
        if value:
            rows[value.bit_length()] = (value, made_of)
    left, made_of = _reduced(target, set(), rows)
    assert left == 0
    return made_of


def _reduced(value: int, made_of: set[int], rows: dict[int, tuple[int, set[int]]]) -> tuple[int, set[int]]:
    while value and value.bit_length() in rows:
        other, its = rows[value.bit_length()]
        value, made_of = value ^ other, made_of ^ its
    return value, made_of
