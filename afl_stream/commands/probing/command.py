"""The command `agent probe`."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.exit_codes import ExitCode


@click.command("probe")
@click.option("--facet", required=True, metavar="NAME", help="The facet that the agent handles.")
@click.option("--payload", default="{}", metavar="JSON", help="Parameters that it answers with a result.")
@click.option(
    "--form", type=click.Choice(["json", "cloudevents"]), default="json", show_default=True, help="How events are sent."
)
@click.option("--scratch", default="probe.", show_default=True, metavar="TEXT", help="What follows the prefix here.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds for one answer.")
@common
def probe_command(
    invocation: Invocation, facet: str, payload: str, form: str, scratch: str, timeout_s: float
) -> ExitCode:
    """Send events to an agent in any language on topics of its own, and judge its answers.

    The topics have another prefix than the deployment, so that no evaluator reads the answers. Start the agent with
    that prefix (AFL_PREFIX=afl.probe. unless it is said otherwise), and then the probe: a good event, one that comes
    twice, one with fields that are not known, one of a cancelled run, one whose payload is no map, and one that is no
    JSON.

    It ends with 0 when all is as it has to be, and with 1 when something is not.

    \b
    Examples:
      afl-stream agent probe --facet shop.Charge --payload '{"order": "17"}' --bootstrap localhost:9092
      afl-stream agent probe --facet shop.Charge --form cloudevents --bootstrap localhost:9092
    """
    given = _parsed(payload)
    from afl_stream.commands.probing.cases import Cases
    from afl_stream.commands.probing.probe import ProbedAgent
    from afl_stream.registry.deployment_codec import DeploymentCodec
    from afl_stream.settings.config import WireSettings
    from afl_stream.topics.declared import Topology
    from afl_stream.wire.event_writers import EventForm

    config, terminal = invocation.settings(), invocation.terminal()
    wire = WireSettings(headers=config.wire.headers, events=form)
    config = replace(config, prefix=f"{config.prefix}{scratch}", wire=wire)
    topology = Topology(config)
    wanted = f"an agent with the prefix {config.prefix} (AFL_PREFIX={config.prefix})"
    terminal.remark(f"events go to {topology.facet(facet)}, for {wanted}")
    verdicts = []
    with (
        open_transport(config, create=True) as transport,
        closing(DeploymentCodec(config, transport, topology)) as schemas,
        closing(ProbedAgent(transport, topology, schemas.codec, facet)) as probe,
    ):
        for verdict in probe.run(Cases(schemas.codec, facet, given, EventForm(form)), timeout_s):
            verdicts.append(verdict)
    if terminal.as_json:
        terminal.document([{"case": one.case, "came": one.came, "faults": list(one.faults)} for one in verdicts])
    else:
        rows = [(one.case, one.came, "; ".join(one.faults) or "ok") for one in verdicts]
        terminal.table(("event", "what came", "verdict"), rows)
    return ExitCode.WORK_LEFT if any(one.faults for one in verdicts) else ExitCode.OK


def _parsed(payload: str) -> dict[str, object]:
    try:
        found = json.loads(payload)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--payload") from None
    if not isinstance(found, dict):
        raise click.BadParameter('a JSON object of parameters: {"order": "17"}', param_hint="--payload")
    return found
