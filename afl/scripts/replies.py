"""The reply of a script's process, checked before use: it may come from a script that got past the checks.

Our interpreter writes a reply in one way only. So the text that was read is written again and compared: data that is
JSON but not a value (numbers without an end, halves of surrogate pairs, a key twice) is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from afl.core.limits import LONG_MAX, LONG_MIN, MAX_CLASS_CHARS
from afl.scripts.errors import SCRIPT_ERROR, ScriptFailed
from afl.scripts.limits import ScriptLimits
from afl.scripts.outcomes import CUT, FAILED, MAX_TEXT_CHARS, SUCCEEDED

#: As many digits as the largest integers have. What has none so long holds no integer beyond 64 bits.
_MANY_DIGITS: Final = re.compile(rb"[0-9]{19}")
_MOST_LINES: Final = 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The names that a script put into `result`, and its printed text."""

    result: Mapping[str, Any]
    printed: str


def read_reply(reply: bytes, limits: ScriptLimits) -> Reply:
    """Return the result of a run.

    Raises ScriptFailed, with the script's own failure or with the fault of the reply. Texts over their bounds are cut;
    a result is used whole or not at all.
    """
    answer = _decoded(reply[1:])
    printed = _cut_bytes(answer.get("printed"), limits.printed_bytes)
    if reply[:1] == SUCCEEDED:
        result = answer.get("result")
        if not isinstance(result, dict):
            raise _refused("it has no result")
        if len(reply) > limits.output_bytes:
            _check_size(result, limits.output_bytes, printed)
        if _MANY_DIGITS.search(reply):
            _check_integers(result, printed)
        return Reply(result=result, printed=printed)
    if reply[:1] != FAILED:
        raise _refused("it is neither a result nor a failure")
    error_type, text, line = answer.get("error_type"), answer.get("text"), answer.get("line")
    if type(error_type) is not str or not error_type[:MAX_CLASS_CHARS].isidentifier():
        error_type = "Exception"
    if type(line) is not int or not 0 < line < _MOST_LINES:
        line = None
    raise ScriptFailed(error_type[:MAX_CLASS_CHARS], _cut_characters(text), line=line, printed=printed)


def as_json(value: object) -> bytes:
    """Return a value as interpreters write it. Raises TypeError, ValueError and RecursionError where JSON has none."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise _refused("it is not a map")
        if as_json(answer) == text:
            return answer
        json.loads(text, object_pairs_hook=_refuse_doubles)
    except (ValueError, TypeError, RecursionError) as error:
        # An integer that cannot be read back, a number without an end, half of a surrogate pair.
        raise ScriptFailed(SCRIPT_ERROR, f"the script's process gave no readable result: {error}") from error
    raise _refused("it is not written as an interpreter writes it")


def _refuse_doubles(pairs: list[tuple[str, object]]) -> None:
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            shown = _cut_characters(name)
            raise ScriptFailed("ValueError", f"a map of the result has two keys that are {shown!r} as JSON")
        seen.add(name)


def _check_size(result: Mapping[str, object], limit: int, printed: str) -> None:
    found = len(as_json(result))
    if found > limit:
        text = f"the result takes {found} bytes, more than the {limit} allowed"
        raise ScriptFailed(SCRIPT_ERROR, text, printed=printed)


def _check_integers(result: Mapping[str, object], printed: str) -> None:
    pending: list[tuple[str, object]] = [("result", result)]
    while pending:
        place, value = pending.pop()
        if isinstance(value, dict):
            pending += [(f"{place}[{_cut_characters(name)!r}]", inner) for name, inner in value.items()]
        elif isinstance(value, list):
            pending += [(f"{place}[{index}]", inner) for index, inner in enumerate(value)]
        elif type(value) is int and not LONG_MIN <= value <= LONG_MAX:
            text = f"{place} is the integer {str(value)[:40]}, which takes more than 64 bits"
            raise ScriptFailed("ValueError", text, printed=printed)


def _cut_bytes(text: object, limit: int) -> str:
    if type(text) is not str:
        raise _refused("it does not say what was printed")
    written = text.encode()
    if len(written) <= limit + len(CUT):
        return text
    return written[:limit].decode("utf-8", "ignore") + CUT


def _cut_characters(text: object) -> str:
    return text[:MAX_TEXT_CHARS] if type(text) is str else ""


def _refused(found: str) -> ScriptFailed:
    return ScriptFailed(SCRIPT_ERROR, f"the script's process gave a reply that is not its interpreter's: {found}")
