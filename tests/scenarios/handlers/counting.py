"""One function for one facet. Its registration names the facet."""

from typing import Any


def handle(payload: dict[str, Any]) -> dict[str, Any]:
    return {"count": len(payload["words"]), "facet": payload["_facet_name"]}
