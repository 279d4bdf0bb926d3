"""The command `why`: what a run waits for, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.completing.values import run_ids
from afl_stream.commands.invocation import Invocation, described_store, open_store, open_transport, store_here
from afl_stream.commands.refusals import NotFound, no_such_run
from afl_stream.exit_codes import ExitCode
from afl_stream.settings.store_files import is_store_at

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport


@click.command("why")
@click.argument("workflow_id", shell_complete=run_ids)
@common
def why_command(invocation: Invocation, workflow_id: str) -> ExitCode:
    """Say what the run WORKFLOW_ID (or the beginning of its id) waits for, step by step, and what would help.

    Each step is shown with its path and its line of AFL, its event's topic, partition and offset, who should answer it,
    and each cause that was found: no agent, a missing handler, a pause, a dead letter, a refused answer, no evaluator,
    an external event, a timer, the next retry. What could not be found out is said, too.

    It reads the store if that is on this machine, and else asks the evaluators; topics and groups it asks the broker
    for, or the process that holds the embedded log.

    \b
    Examples:
      afl-stream why order-17
      afl-stream why order-17 --json | jq '.waits[].causes[].code'
    """
    from afl_stream.commands.waiting.why_lines import report_document, report_lines
    from afl_stream.visibility.waiting.explaining import UnknownRun, explain

    config, terminal = invocation.settings(), invocation.terminal()
    with opened_sources(config) as (store, transport, unknown):
        if store is not None:
            terminal.remark(described_store(config))
        found = whole_id(store, workflow_id)
        try:
            report = explain(config, found, store=store, transport=transport, unknown=unknown)
        except UnknownRun as error:
            hint = "no start of it waits either; afl-stream status lists the runs"
            told = NotFound("run", workflow_id, hint) if store is None else no_such_run(store, workflow_id, hint)
            raise told from error
    if terminal.as_json:
        terminal.document(report_document(invocation, report))
        return ExitCode.OK
    for line in report_lines(invocation, report):
        terminal.line(line)
    return ExitCode.OK


def whole_id(store: EngineStore | None, given: str) -> str:
    """Return the id of the only run that begins so; the text itself where no run of the store does."""
    from afl_stream.visibility.workflows import NoSuchWorkflow, full_id

    try:
        return given if store is None else full_id(store, given)
    except NoSuchWorkflow as error:
        if error.near:
            raise
        # Its start may lie on a topic.
        return given


@contextmanager
def opened_sources(config: StreamConfig) -> Iterator[tuple[EngineStore | None, Transport | None, list[str]]]:
    """Open the store and the transport, as far as they can be reached; say of the others why not.

    Raises what opening raises where neither can be reached, and for Kafka whatever it is.
    """
    from afl_stream.commands.invocation import NothingThere
    from afl_stream.embedded.file import FileInUse

    with ExitStack() as stack:
        if config.is_kafka:
            transport = stack.enter_context(open_transport(config))
            yield stack.enter_context(store_here(config, transport)), transport, []
            return
        opened: Transport | None = None
        unknown: list[str] = []
        try:
            opened = stack.enter_context(open_transport(config))
        except FileInUse as error:
            unknown.append(
                f"where events are and who reads them: the embedded log is in use by process {error.pid}, which has "
                "its evaluator or its agents"
            )
        except NothingThere as error:
            unknown.append(f"where events are and who reads them: {error}")
        # A start may lie on the log before there is a store.
        store = None if opened is not None and not is_store_at(config.store_file.path) else open_store(config)
        yield None if store is None else stack.enter_context(store), opened, unknown
