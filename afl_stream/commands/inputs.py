"""Values given on the command line: inputs by name, and JSON documents, read by their declared types."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from afl.core.json_objects import DuplicateKey, NotJson, input_value, read_json
from afl.core.values import plain_value, plain_values
from afl.engine.types import Value
from afl_stream.commands.refusals import CommandRefused


def given_inputs(pairs: Sequence[str], document: str | None, types: Mapping[str, object]) -> dict[str, Value]:
    """Return the inputs of `--inputs DOCUMENT` and, over them, of each `--input NAME=VALUE`.

    A value for a String is taken as it is; another is JSON if it parses, else text (which then does not fit, and the
    check says so). Raises CommandRefused and ValueRefused.
    """
    inputs = {} if document is None else json_object(document, "--inputs")
    seen: set[str] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise CommandRefused(f"--input {pair}: expected NAME=VALUE, for instance --input limit=5")
        if name in seen:
            raise CommandRefused(f"--input {name} is given twice; for a list give one: --input '{name}=[1, 2]'")
        seen.add(name)
        try:
            inputs[name] = input_value(text, types.get(name))
        except (DuplicateKey, NotJson) as error:
            raise CommandRefused(f"--input {name}: {error}") from None
    return plain_values(inputs, "inputs")


def json_object(text: str, what: str) -> dict[str, Value]:
    """Return a JSON object of AFL values given as text, as `@file`, or as `-` for standard input.

    Raises CommandRefused, and ValueRefused for a number or text that is not an AFL value.
    """
    value, where = _json_of(text, what)
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a string", bool: "a Boolean", type(None): "null"}.get(type(value), "a number")
        raise CommandRefused(f'{where}: expected a JSON object such as {{"name": "value"}}, found {kind}')
    return plain_values(value, what)


def json_value(text: str, what: str, *, remedy: str = "") -> Value:
    """Return any AFL value given as JSON, as `json_object` takes it. `remedy` says how to write a plain text.

    Raises as `json_object`.
    """
    value, _ = _json_of(text, what, remedy)
    plain: Value = plain_value(value, what)
    return plain


def _json_of(text: str, what: str, remedy: str = "") -> tuple[object, str]:
    """Return what a JSON text says, and the words for where it stands."""
    where = what
    if text == "-":
        text, where = sys.stdin.read(), f"{what} (standard input)"
    elif text.startswith("@"):
        where = f"{what} {text}"
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CommandRefused(f"{where}: {reason}") from error
    try:
        value = read_json(text)
    except RecursionError:
        raise CommandRefused(f"{where}: nested too deep") from None
    except DuplicateKey as error:
        raise CommandRefused(f"{where}: {error}") from None
    except json.JSONDecodeError as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        # A file's name without its @, nearly always.
        hint = f"; a file is read with @: @{text}" if where == what and os.path.isfile(text) else remedy
        raise CommandRefused(
            f"{where}: not JSON: {error.msg} (line {error.lineno}, column {error.colno}): {shown!r}{hint}"
        ) from None
    except ValueError as error:
        raise CommandRefused(f"{where}: not JSON: {error}") from None
    return value, where
