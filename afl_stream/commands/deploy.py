"""The command `deploy`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from afl_stream.commands.arguments import common, files_argument
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.refusals import NotFound
from afl_stream.exit_codes import ExitCode


@click.command("deploy")
@files_argument(required=True)
@click.option(
    "--compare",
    is_flag=True,
    help="Deploy nothing: say what differs from what is deployed, and which runs stay on other versions.",
)
@common
def deploy_command(invocation: Invocation, files: Sequence[str], compare: bool) -> ExitCode:
    """Compile FILEs together and publish the program. Runs that have started keep theirs.

    With --compare nothing is deployed: it says what differs from what is deployed, by workflow, facet and step, and
    which runs that have not ended stay on other versions. It ends with 0 if nothing differs, with 1 otherwise.

    \b
    Examples:
      afl-stream deploy orders.afl
      afl-stream deploy shop/*.afl --json
      afl-stream deploy orders.afl --compare
    """
    from afl_stream.client.client import Client
    from afl_stream.commands.programs import compile_program
    from afl_stream.errors import TopicMissing

    config, terminal = invocation.settings(), invocation.terminal()
    program = compile_program(files, terminal, invocation.strictness)
    if compare:
        from afl_stream.commands.versions.comparing import compare_with_deployed

        return compare_with_deployed(invocation, program, files)
    # `topics apply` without files knows only deployed programs, and this one is not yet deployed.
    remedy = invocation.with_files("topics", "apply", *files)
    with open_transport(config, remedy=remedy) as transport, Client(config, transport) as client:
        try:
            client.deploy(program)
        except TopicMissing as error:
            why = f"{error.needed_for} needs it; create it with: {remedy}"
            raise NotFound("topic", error.topic, why) from error
        facets = [facet.qualified_name for facet in program.event_facets()]
        topics = {facet: client.topology.facet(facet) for facet in facets if client.topology.carries(facet)}
    workflows = [workflow.qualified_name for workflow in program.workflows()]
    if terminal.as_json:
        terminal.document({"program": program.fingerprint, "workflows": workflows, "topics": topics})
        return ExitCode.OK
    terminal.line(f"deployed {program.fingerprint[:12]}: {', '.join(workflows) or 'no workflow'}")
    for facet in facets:
        where = f"go to {topics[facet]}" if facet in topics else "are tasks in the store"
        terminal.line(f"  events of {facet} {where}")
    if workflows:
        terminal.remark(f"start one with: {invocation.command_line('start', workflows[0])}")
    return ExitCode.OK
