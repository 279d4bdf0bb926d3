"""The server: the tools and resources of a deployment, behind the SDK's protocol."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from afl.core.release import VERSION
from afl.core.text.exception_text import exception_traceback
from afl.engine.errors import StepNotFoundError
from afl_stream.commands.failures import exit_code_of, message_of
from afl_stream.commands.invocation import NothingThere
from afl_stream.dead_letters import BadPlace, NoSuchLetter
from afl_stream.errors import IdRefused
from afl_stream.exit_codes import ExitCode
from afl_stream.mcp.bounds import PAGE_CHARS, bounded_text, json_text, listed
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.offered import offered_tools
from afl_stream.mcp.resources import RESOURCES, NoSuchResource, read_resource
from afl_stream.mcp.tool import Tool
from afl_stream.visibility.programs import NoSuchProgram
from afl_stream.visibility.workflows import NoSuchWorkflow

_log = logging.getLogger(__name__)

_INSTRUCTIONS: Final = (
    "AFL Stream runs workflows that are written in AFL. afl_validate checks a text and afl_compile compiles it; "
    "afl_list, afl_show and afl_why look at runs; afl_dlq shows what could not be delivered; afl_read reads resources, "
    "and values that were cut. Times are milliseconds since the epoch. "
)
_READS_ONLY: Final = (
    "This server only reads: started with --write it also starts runs, answers steps and raises events."
)
_WRITES: Final = (
    "afl_execute_workflow starts a run, afl_continue_step answers a step that waits, afl_raise raises an event."
)


#: What does here what a message says of the command line.
_HINTS: Final[tuple[tuple[tuple[type[BaseException], ...], str], ...]] = (
    ((NoSuchWorkflow,), "afl_list lists the runs"),
    ((NoSuchProgram,), "afl_read with afl://programs lists the programs"),
    ((IdRefused, StepNotFoundError), "afl_show has the ids of a run's steps"),
    ((NoSuchLetter, BadPlace), "afl_dlq lists the dead letters"),
)


class ToolServer:
    """Answers the requests of any number of clients, one call at a time.

    Whatever a call raises becomes an answer that says what to do. Calls run on a thread of their own, so that the
    protocol goes on meanwhile.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._tools: Mapping[str, Tool[Any, Any]] = offered_tools(may_write=deployment.may_write)
        #: A store and an embedded log are opened by one call at a time.
        self._limiter = anyio.CapacityLimiter(1)
        self.server: Server[Any] = Server(
            "afl-stream",
            version=VERSION,
            title="AFL Stream",
            instructions=_INSTRUCTIONS + (_WRITES if deployment.may_write else _READS_ONLY),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in self._tools.values()])

    async def _call_tool(
        self, _context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        return await run_sync(partial(self.answer, params.name, params.arguments or {}), limiter=self._limiter)

    def answer(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Return the answer to a call: the tool's result, or what went wrong and what to do."""
        tool = self._tools.get(name)
        if tool is None:
            writing = "; tools that change something need a server with --write"
            known = f"it has {listed(self._tools)}{'' if self._deployment.may_write else writing}"
            return _refusal(f"there is no tool {bounded_text(name, 100)}; {known}")
        try:
            structured = self._clean(tool.call(self._deployment, arguments).model_dump(mode="json", exclude_none=True))
            text = json_text(structured)
        except BaseException as error:  # noqa: BLE001 - the one place of a call's thread
            return _refusal(self._problem(error, f"tool {name}"))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=structured)

    async def _list_resources(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=one.uri, name=one.name, description=one.description, mime_type=one.mime_type)
                for one in RESOURCES
                if not one.is_template
            ]
        )

    async def _list_templates(
        self, _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=one.uri, name=one.name, description=one.description, mime_type=one.mime_type
                )
                for one in RESOURCES
                if one.is_template
            ]
        )

    async def _read_resource(
        self, _context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await run_sync(partial(self.read, str(params.uri)), limiter=self._limiter)

    def read(self, uri: str) -> types.ReadResourceResult:
        """Return the first page of a resource; what it lacks is read with afl_read. Raises MCPError."""
        try:
            found = read_resource(self._deployment, uri)
        except BaseException as error:  # noqa: BLE001 - the one place of a call's thread
            code = types.INVALID_PARAMS if isinstance(error, NoSuchResource) else types.INTERNAL_ERROR
            raise MCPError(code=code, message=self._problem(error, f"resource {bounded_text(uri, 200)}")) from None
        is_cut = len(found.text) > PAGE_CHARS
        rest = {"chars": len(found.text), "next_offset": PAGE_CHARS, "read_rest": f"afl_read(uri={uri}, offset=...)"}
        contents = types.TextResourceContents(
            uri=uri,
            # A beginning of JSON is none.
            mime_type="text/plain" if is_cut else found.mime_type,
            text=_without_surrogates(found.text[:PAGE_CHARS]),
            _meta=rest if is_cut else None,
        )
        return types.ReadResourceResult(contents=[contents])

    def _problem(self, error: BaseException, what: str) -> str:
        """Return what went wrong, for the caller; what is our mistake is logged with its place."""
        if exit_code_of(error) is ExitCode.INTERNAL:
            _log.error("%s failed\n%s", what, self._deployment.masked(exception_traceback(error)))
        told = message_of(error, self._deployment.invocation)
        if isinstance(error, NothingThere) and self._deployment.may_write:
            told += "; afl_execute_workflow with a `source` starts a first run"
        told += "".join(f"; here {hint}" for kinds, hint in _HINTS if isinstance(error, kinds))
        return _without_surrogates(self._deployment.masked(bounded_text(told, PAGE_CHARS)))

    def _clean(self, value: Any) -> Any:
        """Return a result without secrets, and with text only that UTF-8 can carry."""
        if isinstance(value, str):
            return _without_surrogates(self._deployment.masked(value))
        if isinstance(value, dict):
            return {self._clean(name): self._clean(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._clean(part) for part in value]
        return value


def _described(tool: Tool[Any, Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.model_json_schema(),
        output_schema=tool.result.model_json_schema(),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.writes,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent or not tool.writes,
            open_world_hint=False,
        ),
    )


def _refusal(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _without_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
