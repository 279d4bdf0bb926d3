"""Searches in the stored form of workflows and steps, without decoding it: what cannot fit is left out early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from afl.engine.model.visibility import WorkflowFilter
from afl.engine.types import Value
from afl.stores.documents import encode_value

#: What ends the versions at the head of a workflow's document and begins its program.
PROGRAM_STARTS: Final = b'","'
#: What ends the program's fingerprint.
PROGRAM_ENDS: Final = b'"'
#: Where a step's values begin: its facet is named before that.
VALUES_START: Final = b"{"


def stored_program(fingerprint: str) -> bytes:
    """Return a fingerprint as it stands in a workflow's document."""
    return _inside(fingerprint)


def program_in(document: bytes) -> bytes:
    """Return the fingerprint of the program that a workflow's document names; b"" in one that is damaged."""
    _, _, rest = document.partition(PROGRAM_STARTS)
    return rest.partition(PROGRAM_ENDS)[0]


def facet_mark(facet: str) -> bytes:
    """Return what stands before the values of a step's document when it calls this facet."""
    return b"," + encode_value(facet) + b","


def calls_any(document: bytes, marks: Sequence[bytes]) -> bool:
    """Return whether the step of a document calls one of the facets with these marks."""
    head = document.partition(VALUES_START)[0]
    return any(mark in head for mark in marks)


def stored_error_text(wanted: WorkflowFilter) -> bytes:
    """Return the text that must be in a workflow's document where its first cause fits, in ASCII lower case."""
    return _inside(wanted.error_text).lower()


def stored_inputs(wanted: WorkflowFilter) -> list[list[bytes]]:
    """Return for each input texts, one of which must be in the document of the inputs where the value fits.

    The values of other inputs may begin alike: what is found has to be decoded and compared.
    """
    return [[text for value in values for text in _forms(name, value)] for name, values in wanted.inputs.items()]


def may_fit(document: bytes, inputs: bytes, error_text: bytes, input_texts: Sequence[Sequence[bytes]]) -> bool:
    """Return whether a workflow may fit by what its documents contain."""
    if error_text and error_text not in document.lower():
        return False
    return all(any(text in inputs for text in texts) for texts in input_texts)


def _inside(text: str) -> bytes:
    return encode_value(text)[1:-1]


def _forms(name: str, value: Value) -> list[bytes]:
    start = encode_value(name) + b":"
    if isinstance(value, int | float) and not isinstance(value, bool):
        # 17 and 17.0 are the same number, and stored as they came.
        return [start + encode_value(number) for number in (value, *_other_form(value))]
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return [start + encode_value(value)]
    # The entries of a map may stand in any order.
    return [start]


def _other_form(number: int | float) -> list[int | float]:
    """Return the float that equals an integer, or the integer that equals a float, where there is one."""
    if isinstance(number, float):
        return [int(number)] if number.is_integer() else []
    try:
        return [float(number)] if float(number) == number else []
    except OverflowError:
        return []
