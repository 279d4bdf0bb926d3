"""`afl-stream mcp` as a process: on standard input and output, and over HTTP with its checks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.eventually import eventually
from tests.scenarios.command_lines import ROOT, CommandLine
from tests.scenarios.mcp_calls import Session, in_session, over_stdio
from tests.scenarios.test_mcp_tools import SHOP

DEADLINE_S: Final = 60.0
TOKEN: Final = "0123456789abcdef0123"
_HELLO: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}


@contextmanager
def server(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server process, and end it."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "afl_stream", "mcp", *words, "--data-dir", str(folder / "data")],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def log_of(folder: Path) -> str:
    return (folder / "log").read_text()


@contextmanager
def http_server(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start a server over HTTP on a free port, and provide its url too."""
    with server(folder, "--http", "127.0.0.1:0", *words) as process:
        eventually(lambda: "serving http" in log_of(folder), DEADLINE_S)
        found = re.search(r"serving (http\S+);", log_of(folder))
        assert found is not None
        yield process, found[1]


def exchange(process: subprocess.Popen[bytes], lines: Sequence[bytes], count: int) -> list[dict[str, Any]]:
    """Write lines to a server, and return so many messages of it: each line of its output is one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(line + b"\n" for line in lines))
    process.stdin.flush()
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def called(number: int, tool: str, **arguments: object) -> bytes:
    """Return the request for a call."""
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def status_of(url: str, **headers: str) -> int:
    """Return the status of a first request with these headers."""
    given = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    request = urllib.request.Request(url, json.dumps(_HELLO).encode(), given)
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@asynccontextmanager
async def with_token(url: str) -> AsyncIterator[Any]:
    """Connect to a server as a client that has the token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


# --- standard input and output ----------------------------------------------------------------------------------


def test_a_host_starts_the_server_and_runs_a_workflow_over_stdio(tmp_path: Path) -> None:
    async def session(mcp: Session) -> None:
        run = await mcp.call("afl_execute_workflow", source=SHOP, inputs={"amount": 3}, run_id="w1")
        ended = await mcp.call("afl_continue_step", step_id=run["waiting"][0]["step_id"], result={"receipt": "r-1"})
        assert ended["outputs"] == {"receipt": "r-1"}

    over_stdio(tmp_path / "data", session, "--write")


def test_messages_of_any_kind_are_answered_and_only_the_protocol_is_written(tmp_path: Path) -> None:
    odd = [
        b"", b"not JSON", b"\xff\xfe", b"[" * 100_000, b"null", b"[]", b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "afl_validate", '
        b'"arguments": {"source": "\\ud800"}}}',
        b'{"jsonrpc": "2.0", "id": "x", "method": "no/such"}',
        b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": 5}',
    ]  # fmt: skip
    with server(tmp_path) as process:
        (hello,) = exchange(process, [json.dumps(_HELLO).encode()], 1)
        assert hello["result"]["serverInfo"]["name"] == "afl-stream"
        ready = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
        answers = {}
        exchange(process, [ready, *odd, called(99, "afl_validate", source=SHOP)], 0)
        while 99 not in answers:
            (answer,) = exchange(process, [], 1)
            answers[answer.get("id")] = answer
        assert answers[99]["result"]["structuredContent"]["ok"] is True
        assert "error" in answers["x"]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_signal_ends_a_server_whose_host_is_silent(tmp_path: Path) -> None:
    with server(tmp_path) as process:
        exchange(process, [json.dumps(_HELLO).encode()], 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0


# --- HTTP -------------------------------------------------------------------------------------------------------


def test_a_client_with_the_token_is_served_over_http_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    with http_server(tmp_path, "--token-file", "token") as (process, url):

        async def session(mcp: Session) -> None:
            assert (await mcp.call("afl_validate", source=SHOP))["ok"]
            assert "nothing has run here yet" in await mcp.refusal("afl_list")

        in_session(lambda: Client(with_token(url)), session)
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert status_of(url, **bearer) == 200
        assert status_of(url) == 401
        assert status_of(url, authorization=f"Bearer {TOKEN}x") == 401
        assert status_of(url, host="evil.example", **bearer) == 421
        assert status_of(url, origin="http://evil.example", **bearer) == 403
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    assert TOKEN not in log_of(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--http", "0.0.0.0:0"], "with --token-file"),
        (["--http", "[::]:0"], "with --token-file"),
        (["--http", "8765x"], "expected HOST:PORT"),
        (["--http", "127.0.0.1:0", "--token-file", "nowhere"], "--token-file nowhere: No such file"),
        (["--http", "127.0.0.1:0", "--token-file", "short"], "16 or more"),
        (["--http", "127.0.0.1:0", "--token-file", "open"], "--token-file open can be read by others than its owner"),
        (["--token-file", "short"], "go with --http"),
    ],
)
def test_an_address_or_token_that_is_not_safe_is_refused(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text, mode in (("short", "abc", 0o600), ("open", TOKEN, 0o640)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)

    found = CommandLine(tmp_path, capsys)("mcp", *words)

    assert found.code == 2
    assert told in found.err


def test_without_the_sdk_the_command_names_the_extra(tmp_path: Path) -> None:
    without = "import sys; sys.modules['mcp'] = None; from afl_stream.cli import main; sys.exit(main(['mcp']))"

    found = subprocess.run(
        [sys.executable, "-c", without],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert (found.returncode, found.stdout) == (2, "")
    assert "pip install 'afl-stream[mcp]'" in found.stderr
