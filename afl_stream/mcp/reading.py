"""`afl_read`: any resource of this server, page by page, for hosts whose models call tools only."""

from __future__ import annotations

from pydantic import Field

from afl_stream.mcp.bounds import PAGE_CHARS
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.resources import read_resource
from afl_stream.mcp.tool import Arguments, Result, Tool


class ReadArguments(Arguments):
    """What to read."""

    uri: str = Field(max_length=4_000, description="Such as afl://runs/ID/logs; a cut value says its own.")
    offset: int = Field(default=0, ge=0, description="next_offset of the page before, in characters.")


class Page(Result):
    """A page of a text."""

    uri: str
    mime_type: str
    text: str
    chars: int = Field(description="Characters of the whole text.")
    next_offset: int | None = Field(default=None, description="For `offset`: the next page. absent: this is the last.")


def _read(deployment: Deployment, arguments: ReadArguments) -> Page:
    found = read_resource(deployment, arguments.uri)
    end = arguments.offset + PAGE_CHARS
    return Page(
        uri=arguments.uri,
        mime_type=found.mime_type,
        text=found.text[arguments.offset : end],
        chars=len(found.text),
        next_offset=end if len(found.text) > end else None,
    )


TOOLS = (
    Tool(
        name="afl_read",
        title="Read a resource",
        description="Read a resource page by page: afl://runs, afl://runs/ID, its steps, logs and values, "
        "afl://programs and afl://programs/ID/source, afl://servers, afl://tasks, afl://handlers, afl://dead-letters.",
        arguments=ReadArguments,
        result=Page,
        run=_read,
    ),
)
