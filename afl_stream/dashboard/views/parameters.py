"""The parameters of requests, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import QueryParams

from afl_stream.dashboard.views.choices import RunChoice
from afl_stream.dashboard.views.letters import LetterChoice
from afl_stream.web.parameters import BadParameter

_NUMBER: Final = re.compile(r"[0-9]{1,15}\Z")


def choice_of(query: QueryParams) -> RunChoice:
    """Return the choice of runs in a url."""

    def several(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value.strip() for value in query.getlist(name) if value.strip()))

    def one(name: str) -> str:
        return query.get(name, "").strip()

    return RunChoice(
        state=several("state"),
        workflow=several("workflow"),
        program=several("program"),
        facet=several("facet"),
        since=one("since"),
        until=one("until"),
        error=one("error"),
        input=several("input"),
    )


def whole_number(query: Mapping[str, str], name: str, *, default: int, low: int, high: int) -> int:
    """Return a number in a url. Raises BadParameter."""
    text = query.get(name)
    if text is None or text == "":
        return default
    if not _NUMBER.match(text) or not low <= int(text) <= high:
        raise BadParameter(name, text, f"a whole number from {low} to {high}")
    return int(text)


def letter_choice_of(query: QueryParams) -> LetterChoice:
    """Return the choice of dead letters in a url."""

    def one(name: str) -> str:
        return query.get(name, "").strip()

    return LetterChoice(
        hop=one("hop"),
        reason=one("reason"),
        facet=one("facet"),
        workflow=one("workflow"),
        text=one("text"),
        since=one("since"),
        handled=one("handled") in ("1", "true", "yes", "on"),
    )
