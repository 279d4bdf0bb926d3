"""The one way in which pages and API carry out an action: role, values, the deed, and the line of who did it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from afl.core.errors import AFLError
from afl.core.json_objects import read_json
from afl.core.text.exception_text import exception_line
from afl.core.text.printable import printable
from afl.core.values import plain_value
from afl_stream.dashboard.actions.operator import ActionRefused, Operator, Outcome
from afl_stream.dashboard.actions.table import Action, Field
from afl_stream.dashboard.context import Dashboard
from afl_stream.web.access import Principal
from afl_stream.web.parameters import BadParameter, unknown_parameter

#: Who did what: shown whatever the level of other lines is.
LOG: Final = logging.getLogger("afl_stream.dashboard.actions")
_MOST_CHARS: Final = 1_000


class NotPermitted(ActionRefused):
    """Somebody who may only read, or anybody on a read-only dashboard, asked for an action."""

    def __init__(self, principal: Principal, *, is_read_only: bool) -> None:
        why = "this dashboard is read only" if is_read_only else f"{principal.name} may read, and not operate"
        super().__init__(why)


def require_operator(dashboard: Dashboard, principal: Principal) -> None:
    """Raise NotPermitted for somebody who may not operate."""
    if not principal.may_operate:
        raise NotPermitted(principal, is_read_only=dashboard.access.is_read_only)


def perform(dashboard: Dashboard, principal: Principal, action: Action, values: Mapping[str, Any]) -> Outcome:
    """Carry an action out, and log who did it and what came of it. Raises what it raises, once that is logged."""
    require_operator(dashboard, principal)
    about = "" if action.target is None else str(values[action.target])
    return logged(principal, action.name, about, lambda: action.act(_operator(dashboard), principal.name, values))


def logged(principal: Principal, action: str, about: str, deed: Any) -> Outcome:
    """Return the outcome of a deed, with a line in the log that says who did it."""
    # `about` is from a request: on one line, whatever is in it.
    told = printable(f"{action} {about}".strip(), 300)
    try:
        outcome: Outcome = deed()
    except AFLError as error:
        LOG.info("%s asked for %s: refused: %s", printable(principal.name), told, printable(exception_line(error), 500))
        raise
    LOG.info("%s did %s: %s", printable(principal.name), told, printable(outcome.text, 500))
    return outcome


def values_of_form(action: Action, form: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a form, in which everything is text. Raises BadParameter."""
    values: dict[str, Any] = {}
    if action.target is not None:
        values[action.target] = _target(action.target, form.get(action.target, ""))
    for field in action.fields:
        text = form.get(field.name, field.default)
        values[field.name] = _read(field, text) if field.kind in ("json", "object") else _text(field, text)
    return values


def values_of_document(action: Action, target: str | None, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a JSON document. Raises BadParameter."""
    known = {field.name for field in action.fields}
    for name in document:
        if name not in known:
            raise unknown_parameter(name, known)
    values: dict[str, Any] = {}
    if action.target is not None:
        values[action.target] = _target(action.target, target or "")
    for field in action.fields:
        if field.name not in document:
            if field.is_required:
                raise BadParameter(field.name, None, _EXPECTED.get(field.kind, "a text"))
            values[field.name] = None if field.kind == "json" else field.default
            continue
        found = document[field.name]
        if field.kind == "json":
            values[field.name] = plain_value(found, field.name)
        elif field.kind == "object":
            values[field.name] = _object(field, found)
        elif not isinstance(found, str):
            raise BadParameter(field.name, found, "a text")
        else:
            values[field.name] = _text(field, found)
    return values


_EXPECTED: Final = {"json": "a JSON value", "object": "a JSON object"}


def _target(name: str, text: str) -> str:
    if not 0 < len(text) <= _MOST_CHARS:
        raise BadParameter(name, text, "its id")
    return text


def _text(field: Field, text: str) -> str:
    stripped = text if field.kind == "afl" else text.strip()
    if field.is_required and not stripped.strip():
        raise BadParameter(field.name, text, "a text")
    if field.kind != "afl" and len(stripped) > _MOST_CHARS:
        raise BadParameter(field.name, text, f"at most {_MOST_CHARS:,}", shown=f"{len(stripped):,} characters")
    return stripped


def _read(field: Field, text: str) -> Any:
    try:
        found = read_json(text if text.strip() else field.default or "null")
    except (ValueError, RecursionError) as error:
        raise BadParameter(field.name, text, f"{_EXPECTED[field.kind]} ({error})") from None
    return _object(field, found) if field.kind == "object" else plain_value(found, field.name)


def _object(field: Field, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise BadParameter(field.name, found, "a JSON object")
    plain: dict[str, Any] = plain_value(found, field.name)
    return plain


def _operator(dashboard: Dashboard) -> Operator:
    return Operator(dashboard.deployment)
