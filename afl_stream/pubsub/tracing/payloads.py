"""Values as attributes of spans: JSON text of a bounded length."""

from __future__ import annotations

import json
from typing import Final

_TEXT: Final = "text/plain"
_JSON: Final = "application/json"
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=repr)


def payload(value: object, max_chars: int) -> tuple[str, str]:
    """Return a value as text of at most `max_chars` characters, and its MIME type: JSON that is cut is plain text."""
    if isinstance(value, str):
        return cut(value, max_chars), _TEXT
    # Piece by piece: of a large value no more is encoded than is kept.
    pieces, length = [], 0
    for piece in _ENCODER.iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > max_chars:
            break
    text = "".join(pieces)
    return cut(text, max_chars), _TEXT if length > max_chars else _JSON


def cut(text: str, max_chars: int) -> str:
    """Return a text of at most `max_chars` characters that can be encoded; one that is cut ends with an ellipsis."""
    kept = text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
    return kept.encode("utf-8", "replace").decode()
