"""A server of tools as tests call it: through the SDK's own client, in memory or as a process."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import anyio
import jsonschema
from mcp import StdioServerParameters, types
from mcp.client import Client
from mcp.client.stdio import stdio_client

from afl_stream.commands.invocation import Invocation
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.server import ToolServer
from tests.scenarios.command_lines import ROOT

T = TypeVar("T")


class Session:
    """One session of a client. Each result is checked against the schema that its tool declares."""

    def __init__(self, client: Client, tools: Mapping[str, types.Tool]) -> None:
        self.client = client
        self.tools = tools

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that has to succeed, and return its structured result."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        found = result.structured_content
        assert isinstance(found, dict)
        jsonschema.validate(found, self.tools[tool].output_schema or {})
        return found

    async def refusal(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that has to refuse, and return what it says."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, text_of(result)
        return text_of(result)

    async def read(self, uri: str) -> str:
        """Return the text of a resource."""
        (contents,) = (await self.client.read_resource(uri)).contents
        assert isinstance(contents, types.TextResourceContents)
        return contents.text


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def in_session(client: Callable[[], Client], script: Callable[[Session], Awaitable[T]]) -> T:
    """Run a script in a session of a new client."""

    async def run() -> T:
        async with client() as opened:
            tools = {tool.name: tool for tool in (await opened.list_tools()).tools}
            return await script(Session(opened, tools))

    return anyio.run(run)


def in_memory(
    data_dir: Path, script: Callable[[Session], Awaitable[T]], *, may_write: bool = True, config: Path | None = None
) -> T:
    """Run a script in a session with a server of this process."""
    invocation = Invocation(data_dir=str(data_dir), config_file=None if config is None else str(config))
    server = ToolServer(Deployment(invocation, may_write=may_write)).server
    return in_session(lambda: Client(server), script)


def over_stdio(data_dir: Path, script: Callable[[Session], Awaitable[T]], *words: str) -> T:
    """Run a script in a session with a server process of its own."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "afl_stream", "mcp", *words, "--data-dir", str(data_dir)],
        env={"PYTHONPATH": str(ROOT)},
    )
    return in_session(lambda: Client(stdio_client(parameters)), script)
