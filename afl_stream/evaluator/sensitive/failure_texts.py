"""Texts of failures without sensitive values: the engine quotes what it found, and the text is kept and logged."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from afl.compiled.sensitive import SensitiveMarks
from afl.core.values import ValueRefused
from afl.engine.errors import InputTypeMismatch
from afl.engine.execution.execution import Execution
from afl.engine.model.records import StepRecord
from afl_stream.evaluator.sensitive.sealed_store import names_of_step
from afl_stream.sensitive.error_texts import hiding
from afl_stream.sensitive.redaction import REDACTED

#: What `afl.core.values.describe_value` makes of a value, and the indexes that operators quote. A text ends where it
#: ends, quote or not: it may have been cut.
_QUOTED: Final = re.compile(
    r"\b(the String) .*|\b(the (?:integer|Double|Boolean)) [^\s,;]+"
    r"|(index error: key) .*(?= not found)|(index error:) -?\d+"
)
#: The path to an input, or to a part of one.
_INPUT: Final = re.compile(r"\w+\.(\w+)")


def failure_text(marks: SensitiveMarks, execution: Execution, step: StepRecord, message: str) -> str:
    """Return the text of a step's failure as it may be kept: without the sensitive values of the step, of those that
    it stands in, and of the run.

    A step that takes or gives sensitive values is told no value at all: what an expression has made of them is found in
    no parameter.
    """
    of_step = _owner(step)
    if of_step is not None and names_of_step(marks, of_step):
        message = _without_values(message)
    values: dict[str, Any] = {}
    for number, (found, names) in enumerate(_values_around(marks, execution, step)):
        values.update({f"{number}.{name}": found[name] for name in names if name in found})
    hide = hiding(values, values)
    return message if hide is None else hide(message)


def input_error(error: InputTypeMismatch | ValueRefused, names: Collection[str]) -> InputTypeMismatch | ValueRefused:
    """Return an error about inputs that quotes none of these names."""
    if isinstance(error, InputTypeMismatch):
        if error.name not in names:
            return error
        return replace(error, found=_without_values(error.found), inside=_without_values(error.inside))
    name = _INPUT.match(error.path)
    if name is None or name[1] not in names:
        return error
    return ValueRefused(error.path, error.afl_type, _without_values(error.found))


def _without_values(text: str) -> str:
    return _QUOTED.sub(lambda found: f"{found[1] or found[2] or found[3] or found[4]} {REDACTED}", text)


def _owner(step: StepRecord | None) -> str | None:
    """Return the facet of a step, or for a block of the step that it is in."""
    while step is not None and not step.facet_name:
        step = step.container
    return None if step is None else step.facet_name


def _values_around(
    marks: SensitiveMarks, execution: Execution, step: StepRecord | None
) -> Iterator[tuple[Mapping[str, Any], Collection[str]]]:
    """Yield values with the names of the sensitive ones, from the inside out."""
    while step is not None:
        names = names_of_step(marks, step.facet_name)
        if names:
            yield from ((found, names) for found in (step.params, step.returns) if found)
        step = step.container
    yield execution.inputs, marks.params_of(execution.plan.name)
