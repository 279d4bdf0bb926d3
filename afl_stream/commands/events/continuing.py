"""The command `continue-as-new`: an operator ends an execution of a run, and begins the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from afl_stream.commands.arguments import common, inputs_document_option, inputs_option, reason_option
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused, no_such_run
from afl_stream.commands.runs.short_ids import meant_id
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.engine.types import Value
    from afl.stores.public.persistence import EngineStore
    from afl_stream.client.client import Client


@click.command("continue-as-new")
@click.argument("workflow_id", shell_complete=run_ids)
@inputs_option
@inputs_document_option
@click.option("--program", metavar="FINGERPRINT", help="The program of the next execution, if it is another one.")
@reason_option
@common
def continue_as_new_command(
    invocation: Invocation,
    workflow_id: str,
    inputs: Sequence[str],
    inputs_document: str | None,
    program: str | None,
    reason: str,
) -> ExitCode:
    """Ask for the run WORKFLOW_ID to end its execution, and to continue as the next one with these inputs.

    The run keeps its id, and the external events that no step has taken. What the execution is at work on ends: answers
    to its events no longer count. An input that is not given takes its default, not its present value.

    \b
    Examples:
      afl-stream continue-as-new meter-7 --input total=0
      afl-stream continue-as-new meter-7 --inputs @inputs.json --reason "new tariff"
    """
    from afl_stream.client.client import Client, drawn_id
    from afl_stream.commands.asking import ask, what_comes_next
    from afl_stream.wire.messages import check_workflow_id

    config, terminal = invocation.settings(), invocation.terminal()
    check_workflow_id(workflow_id)
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics("commands")
        with store_here(config, transport) as store:
            workflow_id = meant_id(store, terminal, workflow_id)
            given = _checked(store, client, workflow_id, program, inputs, inputs_document)
        command_id = drawn_id()

        def give(timeout_s: float | None) -> str:
            return client.continue_as_new(
                workflow_id, given, program=program, reason=reason, command_id=command_id, answer_timeout_s=timeout_s
            )

        is_answered = ask(invocation, client, give) is not None
    if terminal.as_json:
        document = {"workflow_id": workflow_id, "inputs": given, "program": program, "reason": reason}
        terminal.document({**document, "command_id": command_id, "answered": is_answered})
        return ExitCode.OK
    terminal.line(f"asked for {workflow_id} to continue as new")
    terminal.remark(what_comes_next(invocation, "does", is_answered=is_answered))
    return ExitCode.OK


def _checked(
    store: EngineStore | None,
    client: Client,
    workflow_id: str,
    fingerprint: str | None,
    pairs: Sequence[str],
    document: str | None,
) -> Mapping[str, Value]:
    """Return the inputs, checked against the program if the store is at hand.

    Raises NotFound and CommandRefused for a run that cannot continue, UnknownProgram, and what is wrong with the
    inputs.
    """
    from afl.engine.model.store import ENDED_STATUSES
    from afl_stream.commands.inputs import given_inputs
    from afl_stream.commands.programs import checked_inputs, program_of

    if store is None:
        return given_inputs(pairs, document, {})
    row = store.load_workflow(workflow_id)
    if row is None:
        if (tombstone := store.tombstone(workflow_id)) is not None:
            raise CommandRefused(f"workflow {workflow_id} has ended as {tombstone.status}, and was purged")
        raise no_such_run(store, workflow_id, "afl-stream status lists them")
    if row.status in ENDED_STATUSES:
        raise CommandRefused(f"workflow {workflow_id} has ended: it is {row.status}; reset runs it again")
    if fingerprint is None:
        program = program_of(store, row)
    else:
        program, _ = client.definitions.find(row.name, fingerprint)
    if program is None:
        return given_inputs(pairs, document, {})
    _, given = checked_inputs(program, row.name, pairs, document)
    return given
