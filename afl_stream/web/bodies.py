"""Bodies of requests and answers as JSON."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from afl.core.json_objects import read_json
from afl_stream.web.parameters import BadParameter


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request; an empty one where it has no body. Raises BadParameter, HTTPException."""
    raw = await request.body()
    if not raw:
        return {}
    # A page of another site can send a form or a text without asking the browser first, and never this.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body must be application/json")
    try:
        found = read_json(raw.decode("utf-8"))
    except RecursionError:
        raise BadParameter("body", None, "a JSON object", shown="values nested too deeply to be read") from None
    except ValueError as error:
        raise BadParameter("body", None, f"a JSON object ({error})", shown=f"{len(raw):,} bytes") from None
    if not isinstance(found, dict):
        raise BadParameter("body", found, "a JSON object")
    return found


def json_response(text: str, *, status: int = 200) -> Response:
    """Return JSON as an answer. Half a surrogate pair, which UTF-8 cannot have, is replaced."""
    return Response(text.encode("utf-8", "replace"), status_code=status, media_type="application/json")
