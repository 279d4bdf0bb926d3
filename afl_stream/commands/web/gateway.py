"""The command `gateway`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from afl.core.process.collector import tune_collector
from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import common, metrics_port_option, service
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode

#: How often the command looks whether its server still serves: seconds.
_LOOK_S = 0.5


@click.command("gateway")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0: a free one.  [default: 8234]")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--facet", "facets", multiple=True, metavar="NAME", help="A facet whose events workers may take.")
@click.option("--webhook", "webhooks", multiple=True, metavar="FACET=URL", help="Post a facet's events to a URL.")
@click.option("--token-file", metavar="FILE", help="Tokens, one a line: NAME read|work|operate|migrate TOKEN.")
@metrics_port_option
@common
@service
def gateway_command(
    invocation: Invocation,
    port: int | None,
    host: str | None,
    facets: Sequence[str],
    webhooks: Sequence[str],
    token_file: str | None,
) -> ExitCode:
    """Serve an HTTP API for programs that do not speak Kafka, until it is stopped.

    They start runs, wait for them, answer steps and raise events. Workers take the events of facets by long polls, with
    leases, and answer them; or a facet's events are posted to a URL. /v1/openapi.json describes all.

    Whoever reaches it on this machine may do everything. On any other address it needs tokens.

    \b
    Examples:
      afl-stream gateway --facet billing.Pay --facet billing.Refund
      afl-stream gateway --webhook billing.Pay=https://pay.example.com/events
      afl-stream gateway --host 0.0.0.0 --token-file tokens.txt --facet billing.Pay
    """
    try:
        from afl_stream.gateway import serving
    except ImportError as error:
        needed = "pip install 'afl-stream[gateway]'"
        raise CommandRefused(f"the gateway needs the extra gateway ({error.name} is missing): {needed}") from error
    from afl_stream.commands.monitoring.gateways import seen_gateway

    config, terminal = invocation.settings(), invocation.terminal()
    settings = config.gateway
    if facets:
        settings = replace(settings, facets=",".join(facets))
    if webhooks:
        settings = replace(settings, webhooks=",".join(webhooks))
    if token_file is not None:
        settings = replace(settings, token_file=token_file)
    config = replace(config, gateway=settings)
    stop = StopFlag()
    tune_collector()
    with open_transport(config, serves=True) as transport:
        served = serving.start(config, transport, host, port)
        try:
            with seen_gateway(terminal.remark, transport, served), draining(stop.set, served.gateway.remaining):
                if terminal.as_json:
                    terminal.document({"address": served.address, "api": f"{served.address}/v1/openapi.json"})
                else:
                    terminal.line(served.address)
                    served_facets = [*settings.polled_facets, *settings.webhook_urls()]
                    told = f"serves {', '.join(served_facets)}" if served_facets else "serves no facet (--facet)"
                    terminal.remark(f"{told}; Ctrl-C ends it")
                while not stop.wait(_LOOK_S):
                    if (failure := served.gateway.failure()) is not None:
                        raise failure
                    if not served.is_serving:
                        raise CommandRefused("the gateway's server has ended; the log says why")
        finally:
            is_done = served.stop()
    return ExitCode.OK if is_done else ExitCode.WORK_LEFT
