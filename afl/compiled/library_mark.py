"""The mark of a declaration that the compiler took from the library: the runtime answers it, no agent does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_KEY: Final = "answeredBy"
_RUNTIME: Final = "runtime"


def marked(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a declaration with the mark."""
    return {**node, _KEY: _RUNTIME}


def is_marked(node: Mapping[str, Any]) -> bool:
    """Say whether a declaration has the mark."""
    return node.get(_KEY) == _RUNTIME
