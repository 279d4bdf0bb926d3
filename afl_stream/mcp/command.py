"""The command `mcp`: tools and resources for language models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from afl.core.process.signals import draining
from afl.core.process.standard_streams import stdout_apart
from afl_stream.commands.arguments import PROCESS, common, service
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from afl_stream.mcp.deployment import Deployment

_MISSING: Final = "the MCP server needs the MCP SDK; install the extra: pip install 'afl-stream[mcp]'"
_LIBRARIES: Final = frozenset({"mcp", "mcp_types", "pydantic", "anyio", "starlette", "uvicorn"})
#: How long a call may go on after a signal.
_DRAIN_LIMIT_S: Final = 30.0


@click.command("mcp")
@click.option("--write", is_flag=True, help="Also offer tools that start, answer, change and cancel.")
@click.option(
    "--http", "http_address", metavar="HOST:PORT", help="Serve streamable HTTP there, in place of standard input."
)
@click.option("--token-file", metavar="FILE", help="With --http: the token that requests must carry.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="With --http: a further name by which clients call this machine. Repeat for several.",
)
@common
@service
def mcp_command(
    invocation: Invocation, write: bool, http_address: str | None, token_file: str | None, hosts: Sequence[str]
) -> ExitCode:
    """Serve tools and resources of the deployment to language models, over the Model Context Protocol.

    A host such as an editor or a desktop assistant starts it and speaks with it on standard input and output; logs go
    to standard error. With --http it is a server of its own, at http://HOST:PORT/mcp.

    Without --write it only reads: the tools that change something are absent. Sensitive values are hidden. An address
    that other machines reach needs --token-file; requests from pages of other sites are refused.

    \b
    Examples:
      afl-stream mcp
      afl-stream mcp --write --data-dir /srv/orders/.afl
      afl-stream mcp --http 127.0.0.1:8765
      afl-stream mcp --http 0.0.0.0:8765 --token-file mcp.token --allow-host orders.example
    """
    if http_address is None and (token_file is not None or hosts):
        raise click.UsageError("--token-file and --allow-host go with --http")
    try:
        from afl_stream.mcp.deployment import Deployment
        from afl_stream.mcp.server import ToolServer
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _LIBRARIES:
            raise
        raise CommandRefused(_MISSING) from error
    deployment = Deployment(invocation, may_write=write)
    server = ToolServer(deployment).server
    if http_address is None:
        return _serve_stdio(invocation, deployment, server)
    return _serve_http(invocation, deployment, server, http_address, token_file, hosts)


def _serve_stdio(invocation: Invocation, deployment: Deployment, server: Server[object]) -> ExitCode:
    from afl_stream.mcp.stdio import serve_stdio

    if sys.stdin.isatty():
        invocation.terminal().remark(
            "a host speaks with this server on standard input and output (docs/mcp.md has its settings); Ctrl-D ends it"
        )
    with ExitStack() as stack:
        is_process = click.get_current_context().obj is PROCESS
        out = invocation.out or stack.enter_context(stdout_apart(for_good=is_process))
        with draining(deployment.stop.set, _calls, limit_s=_DRAIN_LIMIT_S):
            serve_stdio(server, out, deployment.stop)
    return ExitCode.OK


def _calls() -> str:
    return "answering the calls under way"


def _serve_http(
    invocation: Invocation,
    deployment: Deployment,
    server: Server[object],
    http_address: str,
    token_file: str | None,
    hosts: Sequence[str],
) -> ExitCode:
    from afl_stream.mcp.http import Address, HttpServer, HttpServing, read_token

    address = Address.parse(http_address)
    if not address.is_local and token_file is None:
        raise CommandRefused(
            f"--http {http_address}: other machines reach this address, so requests must carry a token; name its file "
            "with --token-file, or listen on 127.0.0.1"
        )
    token = None if token_file is None else read_token(token_file)
    if token is not None:
        invocation.secrets.add([token])
    with HttpServer(server, HttpServing(address=address, token=token, hosts=tuple(hosts))) as http:

        def stop() -> None:
            deployment.stop.set()
            http.stop()

        def ready() -> None:
            invocation.terminal().remark(f"serving {http.url}; Ctrl-C ends it")

        with draining(stop, _calls, limit_s=_DRAIN_LIMIT_S):
            http.serve(ready)
    return ExitCode.OK
