"""Compact JSON text, by an encoder that is made once: `json` makes another for each call of `dumps` with options."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable


def make_encoder(other_kinds: Callable[[object], object]) -> Callable[[object], str]:
    """Return a function from a value to compact JSON text. `other_kinds` gives plain forms of what JSON lacks."""
    public = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, default=other_kinds)
    compiled = getattr(json.encoder, "c_make_encoder", None)
    quote = getattr(json.encoder, "c_encode_basestring", None)
    if compiled is None or quote is None:
        return public.encode
    # JSONEncoder.encode builds this object again for each call, which costs a third of encoding a step.
    chunks = compiled(None, other_kinds, quote, None, ":", ",", False, False, True)
    return lambda value: "".join(chunks(value, 0))
