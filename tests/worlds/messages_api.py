"""A server that speaks the Messages API over a real socket: it says what a test has scripted.

It looks at requests as the API does, and refuses what that does: credentials and version, the fields that must be
there, roles that take turns, names and schemas of tools, and a result for every use of a tool in the message after it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anthropic import Anthropic, AsyncAnthropic

from afl.runtime.agent import async_claude_client, claude_client

API_KEY = "test-key"
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
_TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}

Block = dict[str, Any]


class InvalidRequest(Exception):
    """What the API would say about a request that it does not take."""


@dataclass(frozen=True, slots=True)
class HttpError:
    """An error of the API in place of a message."""

    status: int
    type: str
    message: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """What Claude says."""

    content: list[Block]
    stop_reason: str
    stop_details: Block | None = None


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def use(tool: str, identity: str = "toolu_1", **given: object) -> Block:
    return {"type": "tool_use", "id": identity, "name": tool, "input": given}


def says(*content: Block, stop_reason: str = "", details: Block | None = None) -> Message:
    """Return a message; without a stop reason the one that its content has."""
    uses = any(block["type"] == "tool_use" for block in content)
    return Message(list(content), stop_reason or ("tool_use" if uses else "end_turn"), details)


class MessagesApi:
    """What was asked, and what will be said. Once the script is over, requests are refused as a server error."""

    def __init__(self, url: str, script: list[Message | HttpError]) -> None:
        self.url = url
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.said: Message | None = None
        self.clients: list[Anthropic] = []

    def client(self, max_retries: int = 0) -> Anthropic:
        """Return a client of this server, which is closed with it."""
        client = claude_client(api_key=API_KEY, base_url=self.url, max_retries=max_retries)
        self.clients.append(client)
        return client

    def async_client(self, max_retries: int = 0) -> AsyncAnthropic:
        return async_claude_client(api_key=API_KEY, base_url=self.url, max_retries=max_retries)

    def last_message(self, request: int) -> Any:
        """Return the content of the last message of a request."""
        return self.requests[request]["messages"][-1]["content"]

    def reply(self, body: dict[str, Any]) -> Message | HttpError:
        with self.lock:
            # Words are put into Claude's mouth only when they are its own, of a turn that was paused.
            paused = self.said is not None and self.said.stop_reason == "pause_turn"
            _need(paused or body["messages"][-1]["role"] == "user", "messages: the last one must be the user's")
            self.requests.append(body)
            said = self.script.pop(0) if self.script else HttpError(500, "api_error", "the script is over")
            self.said = said if isinstance(said, Message) else None
            return said


@contextmanager
def messages_api(*script: Message | HttpError) -> Iterator[MessagesApi]:
    """Serve until the end of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    api = MessagesApi(f"http://127.0.0.1:{server.server_port}", list(script))
    server.api = api  # type: ignore[attr-defined]  # for the handler, which has nothing else
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        for client in api.clients:
            client.close()
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        api: MessagesApi = self.server.api  # type: ignore[attr-defined]  # see messages_api
        if self.path != "/v1/messages":
            return self._refuse(HttpError(404, "not_found_error", self.path))
        # Clients of different versions send the key in one header or the other.
        if API_KEY not in (
            self.headers.get("x-api-key"),
            (self.headers.get("authorization") or "").removeprefix("Bearer "),
        ):
            return self._refuse(HttpError(401, "authentication_error", "invalid API key"))
        try:
            if not re.fullmatch(r"\d{4}-\d\d-\d\d", self.headers.get("anthropic-version") or ""):
                raise InvalidRequest("anthropic-version: header is required")
            request = json.loads(body)
            _check_request(request)
            reply = api.reply(request)
        except (InvalidRequest, ValueError) as error:
            return self._refuse(HttpError(400, "invalid_request_error", str(error)))
        return self._refuse(reply) if isinstance(reply, HttpError) else self._say(request, reply)

    def _say(self, request: dict[str, Any], message: Message) -> None:
        self._send(
            200,
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": request["model"],
                "content": message.content,
                "stop_reason": message.stop_reason,
                "stop_sequence": None,
                "stop_details": message.stop_details,
                "usage": {"input_tokens": 100, "output_tokens": 10},
            },
        )

    def _refuse(self, error: HttpError) -> None:
        reported = {"type": "error", "error": {"type": error.type, "message": error.message}}
        self._send(error.status, reported, error.headers)

    def _send(self, status: int, document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


def _need(holds: object, complaint: str) -> None:
    if not holds:
        raise InvalidRequest(complaint)


def _check_request(request: object) -> None:
    _need(isinstance(request, dict), "the body must be an object")
    assert isinstance(request, dict)
    unknown = set(request) - {"model", "max_tokens", "system", "messages", "tools", "tool_choice", "stop_sequences"}
    _need(not unknown, f"{sorted(unknown)}: Extra inputs are not permitted")
    _need(isinstance(request.get("model"), str) and request["model"], "model: Field required")
    _need(isinstance(request.get("max_tokens"), int) and request["max_tokens"] > 0, "max_tokens: Field required")
    _need(isinstance(request.get("system", ""), str | list), "system: Input should be a valid string")
    _need(isinstance(request.get("messages"), list) and request["messages"], "messages: at least one is required")
    names = [tool.get("name") for tool in request.get("tools", [])]
    _need(len(set(names)) == len(names), "tools: Tool names must be unique.")
    for tool in request.get("tools", []):
        _check_tool(tool)
    _check_messages(request["messages"])


def _check_tool(tool: dict[str, Any]) -> None:
    _need(_TOOL_NAME.match(str(tool.get("name"))), f"tools.name: {tool.get('name')!r} does not match the pattern")
    schema = tool.get("input_schema")
    _need(isinstance(schema, dict) and schema.get("type") == "object", "tools.input_schema.type: Field required")
    assert isinstance(schema, dict)
    _check_schema(schema)
    _need(set(tool) <= {"name", "description", "input_schema", "cache_control"}, "tools: Extra inputs")


def _check_schema(schema: dict[str, Any]) -> None:
    _need("type" not in schema or schema["type"] in _TYPES, f"input_schema: {schema.get('type')!r} is no type")
    properties = schema.get("properties", {})
    _need(set(schema.get("required", [])) <= set(properties), "input_schema.required: names no property")
    for inner in (*properties.values(), *([schema["items"]] if "items" in schema else [])):
        _check_schema(inner)


def _check_messages(messages: list[dict[str, Any]]) -> None:
    open_uses: list[str] = []
    for index, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        # The API itself joins messages of one role; we hold our requests to what it has always taken.
        _need(role == ("assistant" if index % 2 else "user"), f"messages.{index}: roles must alternate")
        _need(content, f"messages.{index}: all messages must have non-empty content")
        blocks = [text(content)] if isinstance(content, str) else content
        for block in blocks or []:
            _check_block(block, index)
        results = [block["tool_use_id"] for block in blocks or [] if block["type"] == "tool_result"]
        _need(sorted(results) == sorted(open_uses), f"messages.{index}: tool_use ids without tool_result: {open_uses}")
        open_uses = [block["id"] for block in blocks or [] if block["type"] == "tool_use"]


def _check_block(block: dict[str, Any], index: int) -> None:
    needed = {
        "text": {"text"},
        "tool_use": {"id", "name", "input"},
        "tool_result": {"tool_use_id"},
        "thinking": {"thinking", "signature"},
    }.get(block.get("type", ""))
    _need(needed is not None, f"messages.{index}.content.type: {block.get('type')!r} is none")
    assert needed is not None
    _need(needed <= set(block), f"messages.{index}.content: {needed - set(block)}: Field required")
    if block["type"] == "text":
        _need(str(block["text"]).strip(), f"messages.{index}: text content blocks must be non-empty")
