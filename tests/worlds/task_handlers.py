"""The Python agent of the groups with members in several languages; `clients/*/test/` has the same in each language."""

from __future__ import annotations

from typing import Any, Final

FACETS: Final = ("tasks.Do",)


def handle(payload: dict[str, Any]) -> dict[str, Any]:
    return {"text": str(payload["number"]), "by": "python"}
