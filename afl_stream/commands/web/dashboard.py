"""The command `dashboard`."""

from __future__ import annotations

from dataclasses import replace

import click

from afl.core.process.collector import tune_collector
from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import common, service
from afl_stream.commands.invocation import Invocation, described_store
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode

#: How often the command looks whether its server still serves: seconds.
_LOOK_S = 1.0


@click.command("dashboard")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0: a free one.  [default: 8233]")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--read-only", is_flag=True, help="Refuse every action.")
@click.option("--token-file", metavar="FILE", help="Tokens, one a line: NAME ROLE TOKEN; the role is read or operate.")
@common
@service
def dashboard_command(
    invocation: Invocation, port: int | None, host: str | None, read_only: bool, token_file: str | None
) -> ExitCode:
    """Serve pages about the deployment, and its JSON API under /api, until it is stopped.

    Runs live, with steps, graph, timeline and why they wait; programs, topics, servers, dead letters, schedules; and
    what an operator does: start, cancel, pause, retry, answer by hand. Whoever reaches it on this machine may operate.
    On any other address it needs tokens, or a proxy that signs users in.

    It reads the store beside the evaluators, who do not notice it, and uses the log of the process that holds it.
    `afl-stream server` serves the same pages.

    \b
    Examples:
      afl-stream dashboard
      afl-stream dashboard --read-only --port 8080
      afl-stream dashboard --host 0.0.0.0 --token-file tokens.txt
    """
    try:
        from afl_stream.dashboard import serving
        from afl_stream.dashboard.deployment import Deployment
        from afl_stream.web.access import Access
    except ImportError as error:
        needed = "pip install 'afl-stream[dashboard]'"
        raise CommandRefused(f"the dashboard needs the extra dashboard ({error.name} is missing): {needed}") from error
    config, terminal = invocation.settings(), invocation.terminal()
    settings = config.dashboard if token_file is None else replace(config.dashboard, token_file=token_file)
    access = Access.of(settings, settings.host if host is None else host, read_only=read_only)
    stop = StopFlag()
    # A run of many steps is read into as many small records.
    tune_collector()
    with draining(stop.set, lambda: "answering the requests under way"):
        served = serving.start(Deployment(config), access, settings.port if port is None else port)
        try:
            if terminal.as_json:
                terminal.document({"address": served.address, "api": f"{served.address}/api/openapi.json"})
            else:
                terminal.line(served.address)
                terminal.remark(described_store(config))
                may = "read" if access.is_read_only else "operate"
                who = f"everybody on this machine may {may}" if access.is_open else "it asks who comes"
                terminal.remark(f"{who}; Ctrl-C ends it")
            while not stop.wait(_LOOK_S):
                if not served.is_serving:
                    raise CommandRefused("the dashboard's server has ended; the log says why")
        finally:
            served.stop()
    return ExitCode.OK
