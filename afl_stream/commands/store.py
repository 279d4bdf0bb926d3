"""The commands `store check`, `store divide` and `store purge`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from afl.core.clock import SystemClock
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, described_store, open_store
from afl_stream.commands.refusals import CommandRefused, no_such_run
from afl_stream.commands.terminal import Terminal, one_line, time_text
from afl_stream.exit_codes import ExitCode
from afl_stream.limits import MAX_STORE_FILES
from afl_stream.settings.durations import EXAMPLES, duration_ms
from afl_stream.settings.store_parts import parts_of

if TYPE_CHECKING:
    from pathlib import Path

    from afl.engine.model.schedules import ScheduleRow
    from afl.engine.model.store import OutboxRecord, WorkflowRow
    from afl.stores.maintenance.check import RecordRules
    from afl.stores.public.persistence import EngineStore
    from afl_stream.settings.config import StreamConfig

#: Prefix of the type of an event's record; its key is the step's id.
_EVENT_TYPE = "afl.event."
#: Runs that are looked up in the outbox together.
_PAGE = 200


@click.group("store")
def store_group() -> None:
    """Check the store, purge finished runs, and divide the store. Evaluators may run meanwhile, but not while it is
    divided.
    """


@store_group.command("check", short_help="Check the whole store.")
@common
def store_check(invocation: Invocation) -> ExitCode:
    """Check the whole store: for steps without workflow, events without step, rows of other releases, lanes without an
    owner, ...

    Writes nothing, and may run while evaluators do. Prints a line for each finding: what is wrong, where, what was
    found and what would be right. Ends with 0 without findings, with 1 otherwise.

    \b
    Examples:
      afl-stream store check
      afl-stream store check --json | jq '.findings[].kind'
    """
    from afl.stores.maintenance.check import Inspection

    config, terminal = invocation.settings(), invocation.terminal()
    found = []
    with open_store(config) as store:
        inspection = Inspection(store=store, records=_rules(config), schedule_fault=_schedule_fault)
        for finding in inspection.findings():
            found.append(finding)
            if not terminal.as_json:
                terminal.line(one_line(str(finding)))
    if terminal.as_json:
        findings = [asdict(finding) for finding in found]
        terminal.document(
            {
                "findings": findings,
                "looked_at": inspection.counts,
                "busy": inspection.busy,
                "left_out": inspection.left_out,
            }
        )
    else:
        looked = ", ".join(_counted(count, what) for what, count in inspection.counts.items())
        terminal.remark(f"{_counted(len(found), 'findings')}; looked at {looked or 'an empty store'}")
        terminal.remark(described_store(config))
        for reported in inspection.left_out:
            terminal.warn(f"the database did not check its {reported}")
        for workflow_id in inspection.busy:
            terminal.warn(f"workflow {workflow_id} was changed each time it was looked at: check again")
    return ExitCode.WORK_LEFT if found else ExitCode.OK


@store_group.command("divide", short_help="Divide the SQLite store into another number of files.")
@click.argument("count", type=click.IntRange(min=1, max=MAX_STORE_FILES), metavar="N")
@common
def store_divide(invocation: Invocation, count: int) -> ExitCode:
    """Divide the SQLite store of a Kafka cluster into N files, for `afl-stream evaluator --processes N`; 1 joins them.

    Every run, position and record that waits is copied. The files that were the store are renamed and kept. No
    evaluator may run meanwhile: a file that is in use is refused. A division that was interrupted is begun again, with
    the same command; what it has left is set aside, and named.

    \b
    Examples:
      afl-stream store divide 4
      afl-stream store divide 1
    """
    from afl_stream.evaluator.parts.dividing import divide, set_strays_aside

    config, terminal = invocation.settings(), invocation.terminal()
    if not config.is_kafka or config.store.url is not None:
        raise CommandRefused("only the SQLite store of a Kafka cluster is divided: other stores have no parts")
    if count > config.topics.control_partitions:
        raise CommandRefused(f"{count} files: found {config.topics.control_partitions} control partitions to divide")
    base = config.store_path
    with open_store(config):
        parts = parts_of(base)
    if count == (1 if parts is None else parts.count):
        terminal.remark(f"{described_store(config)}: it is divided so already")
        _tell_strays(terminal, set_strays_aside(config))
        return ExitCode.OK
    old, strays = divide(config, count)
    _tell_strays(terminal, strays)
    if terminal.as_json:
        documents = {"kept": [str(path) for path in old], "set_aside": [str(path) for path in strays]}
        terminal.document({"files": count, **documents})
    else:
        terminal.remark(f"{described_store(config)}; kept, and not read any more: {', '.join(map(str, old))}")
        words = () if count == 1 else ("--processes", str(count))
        terminal.remark(f"the evaluators of this store: {invocation.command_line('evaluator', *words)}")
    return ExitCode.OK


def _tell_strays(terminal: Terminal, strays: Sequence[Path]) -> None:
    """Say what a division that was interrupted has left."""
    if strays:
        terminal.remark(
            "left by a division that was interrupted, no part of the store, and set aside; it may be deleted: "
            f"{', '.join(map(str, strays))}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOptions:
    """The options of `store purge`."""

    older_than: str | None = None
    workflow_ids: Sequence[str] = ()
    dry_run: bool = False


@store_group.command("purge", short_help="Delete finished runs, and leave a tombstone of each.")
@click.option("--older-than", metavar="TIME", help="Runs that ended longer ago: 30d, 12h. By default store.retention.")
@click.option("--workflow", "workflow_ids", multiple=True, metavar="ID", help="This run; repeat for several.")
@click.option("--dry-run", is_flag=True, help="Only say which runs it would be.")
@common
def store_purge(invocation: Invocation, **given: Any) -> ExitCode:
    """Delete finished runs with their steps, tasks, log entries and parked answers.

    A tombstone of each run stays: its id is not used again, and answers to it count as late. A run that has not ended,
    or whose records still wait to be published, is kept. Evaluators do the same by themselves if store.retention is
    set. The next purge continues an interrupted one.

    \b
    Examples:
      afl-stream store purge --older-than 30d --dry-run
      afl-stream store purge --older-than 30d
      afl-stream store purge --workflow order-17
    """
    from afl.stores.maintenance.purge import Purge
    from afl_stream.evaluator.sensitive.purged_inputs import PurgedInputs

    options = PurgeOptions(**given)
    config, terminal = invocation.settings(), invocation.terminal()
    age_ms = _age_ms(config, options)
    clock = SystemClock()
    purged: list[str] = []
    kept: list[str] = []
    with open_store(config) as store:
        purge = Purge(store, clock, digest_of=PurgedInputs(store, config.sensitive.patterns).digest_of)
        finished = 0 if options.dry_run else purge.finish_begun()
        rows = _named(store, options) if age_ms is None else purge.due(clock.now_ms() - age_ms)
        while page := list(islice(rows, _PAGE)):
            # Asked after the rows were read: records that a run had to publish were in the outbox by then.
            waiting = purge.waiting()
            done = set() if options.dry_run else set(purge.purge_all(page, waiting))
            for row in page:
                is_done = row.id not in waiting if options.dry_run else row.id in done
                (purged if is_done else kept).append(row.id)
                if not terminal.as_json:
                    _report_run(terminal, row, is_done=is_done, dry_run=options.dry_run)
        forgotten = 0
        if not options.dry_run and config.store.tombstone_retention_ms is not None:
            while count := purge.forget(clock.now_ms() - config.store.tombstone_retention_ms):
                forgotten += count
        while not options.dry_run and purge.give_back():
            pass
    if terminal.as_json:
        facts = {"purged": purged, "kept": kept, "finished": finished, "tombstones_forgotten": forgotten}
        terminal.document({**facts, "dry_run": options.dry_run})
    else:
        verb = "would be purged" if options.dry_run else "purged"
        terminal.remark(f"{_counted(len(purged), 'runs')} {verb}, {len(kept):,} kept")
    return ExitCode.WORK_LEFT if kept else ExitCode.OK


def _rules(config: StreamConfig) -> RecordRules:
    from afl.stores.maintenance.check import RecordRules
    from afl_stream.evaluator.outbox import control_lane
    from afl_stream.partitioner import partition_for
    from afl_stream.wire.headers import header, unpacked

    def step_of(record: OutboxRecord) -> str | None:
        is_event = (header(unpacked(record.headers), "ce_type") or "").startswith(_EVENT_TYPE)
        return record.key.decode("utf-8", "replace") if is_event and record.key else None

    def lane_of(workflow_id: str) -> str:
        return control_lane(partition_for(workflow_id.encode(), config.topics.control_partitions))

    return RecordRules(lane_of=lane_of, step_of=step_of)


def _schedule_fault(row: ScheduleRow) -> tuple[str, str] | None:
    from afl_stream.schedules.documents import row_fault

    return row_fault(row.id, row.next_at_ms, row.document)


def _counted(count: int, what: str) -> str:
    """Return a number of things; `what` is their plural."""
    return f"{count:,} {what.removesuffix('s') if count == 1 else what}"


def _age_ms(config: StreamConfig, options: PurgeOptions) -> int | None:
    """Return how long ago a run must have ended; None when runs are named. Raises CommandRefused."""
    if options.workflow_ids:
        if options.older_than is not None:
            raise CommandRefused("--older-than and --workflow are two ways to choose runs: give one")
        return None
    text = options.older_than if options.older_than is not None else config.store.retention
    if text is None:
        raise CommandRefused("which runs? Give --older-than TIME or --workflow ID, or set store.retention")
    found = duration_ms(text)
    if found is None:
        raise CommandRefused(f"--older-than {text}: expected {EXAMPLES}")
    return found


def _named(store: EngineStore, options: PurgeOptions) -> Iterator[WorkflowRow]:
    """Return the runs that are named. All of them are looked up before one is purged."""
    from afl.engine.model.store import ENDED_STATUSES

    rows = []
    for workflow_id in dict.fromkeys(options.workflow_ids):
        row = store.load_workflow(workflow_id)
        if row is None:
            if store.tombstone(workflow_id) is not None:
                continue  # It is done already.
            raise no_such_run(store, workflow_id, "afl-stream status lists them")
        if row.status not in ENDED_STATUSES:
            raise CommandRefused(
                f"run {workflow_id} is {row.status}: only runs that have ended are purged; "
                f"end it with: afl-stream cancel {workflow_id}"
            )
        rows.append(row)
    return iter(rows)


def _report_run(terminal: Terminal, row: WorkflowRow, *, is_done: bool, dry_run: bool) -> None:
    done = "would be purged" if dry_run else "purged"
    what = done if is_done else "kept: records of it wait to be published, or another process has changed it"
    terminal.line(f"{row.id}  {row.name}  {row.status}, ended {time_text(row.ended_at_ms)}: {what}")
