"""The JSON of a record's value."""

from __future__ import annotations

import json
from typing import Any

from afl.core.json_objects import DuplicateKey, read_json
from afl.core.text.exception_text import exception_text
from afl_stream.errors import Reason, Unreadable


def read_json_value(value: bytes) -> Any:
    """Return what a record's value holds as JSON. Raises Unreadable, which says what is wrong."""
    try:
        return read_json(value.decode())
    except UnicodeDecodeError as error:
        raise Unreadable(Reason.BAD_UTF8, exception_text(error)) from error
    except RecursionError:
        raise Unreadable(Reason.TOO_DEEP, "the JSON nests too deep") from None
    except (json.JSONDecodeError, DuplicateKey) as error:
        raise Unreadable(Reason.BAD_JSON, exception_text(error)) from error
