"""The tools that a server offers."""

from __future__ import annotations

from typing import Any

from afl_stream.mcp import reading
from afl_stream.mcp.tool import Tool
from afl_stream.mcp.tools import compiling, handlers, letters, looking, runners, running


def offered_tools(*, may_write: bool) -> dict[str, Tool[Any, Any]]:
    """Return the tools by name. Without `may_write` those that change something are absent."""
    found = [
        *compiling.TOOLS,
        *looking.TOOLS,
        *letters.TOOLS,
        *reading.TOOLS,
        *running.TOOLS,
        *(runners.WRITING_TOOLS if may_write else runners.TOOLS),
        *(handlers.WRITING_TOOLS if may_write else handlers.TOOLS),
    ]
    return {tool.name: tool for tool in found if may_write or not tool.writes}
