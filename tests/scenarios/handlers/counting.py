"""One function for one facet. Which one is said by whoever registers it."""

from typing import Any


def handle(payload: dict[str, Any]) -> dict[str, Any]:
    return {"count": len(payload["words"]), "facet": payload["_facet_name"]}
