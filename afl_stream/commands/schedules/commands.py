"""The commands of `schedule`: they create schedules of runs, show them, and change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import click

from afl.core.clock import epoch_ms
from afl.core.text.near_names import close_names
from afl_stream.commands.arguments import common, inputs_document_option, inputs_option
from afl_stream.commands.completing.values import workflow_names
from afl_stream.commands.invocation import Invocation, described_store, open_store, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused, NotFound
from afl_stream.commands.sensitive.shown import reveal_option
from afl_stream.exit_codes import ExitCode
from afl_stream.settings.durations import EXAMPLES, duration_ms

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl.stores.public.persistence import EngineStore
    from afl_stream.client.client import Client
    from afl_stream.schedules.documents import Schedule
    from afl_stream.schedules.spec import ScheduleSpec
    from afl_stream.wire.messages import Lifecycle

_UTC: Final = "UTC"
#: The options that give the parts of a schedule.
_OPTIONS: Final = {
    "cron": "--cron",
    "time_zone": "--zone",
    "interval": "--every",
    "start_at": "--start",
    "end_at": "--end",
    "catch_up_ms": "--catch-up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """The options of `schedule create`."""

    schedule_id: str
    workflow: str
    cron: str | None = None
    every: str | None = None
    zone: str | None = None
    inputs: Sequence[str] = ()
    inputs_document: str | None = None
    start: str | None = None
    end: str | None = None
    overlap: str = "skip"
    catch_up: str = "1h"
    paused: bool = False


@click.group("schedule")
def schedule_group() -> None:
    """Create schedules, which start runs at certain times, and show and change them."""


@schedule_group.command("create")
@click.argument("schedule_id", metavar="ID")
@click.argument("workflow", shell_complete=workflow_names)
@click.option(
    "--cron", metavar="TEXT", help="Times as minute, hour, day, month and day of the week; a second in front."
)
@click.option("--every", metavar="TIME", help=f"The time between two firings: {EXAMPLES}.")
@click.option("--zone", metavar="ZONE", help="The time zone of --cron, such as Europe/Berlin.  [default: UTC]")
@inputs_option
@inputs_document_option
@click.option(
    "--start", metavar="WHEN", help="The first moment, such as 2030-01-31T08:00, in the zone of the schedule."
)
@click.option("--end", metavar="WHEN", help="The last moment.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "queue", "allow"]),
    default="skip",
    show_default=True,
    help="What a firing does while an earlier run is unfinished: start nothing, wait for its end (one), or start.",
)
@click.option(
    "--catch-up", metavar="TIME", default="1h", show_default=True, help="How late a run may start after an outage."
)
@click.option("--paused", is_flag=True, help="Start nothing before `schedule resume`.")
@common
def create_command(invocation: Invocation, **given: Any) -> ExitCode:
    """Create the schedule ID, which starts a deployed WORKFLOW. One of this id is replaced, and keeps its counts.

    Each run's id is the schedule's with the time of the firing, such as nightly-20300131T013000Z. The run has the
    program that the workflow's name means then. Intervals are counted from --start, or else from midnight (UTC). Inputs
    are checked first.

    \b
    Examples:
      afl-stream schedule create nightly Checkout --cron "30 2 * * *" --zone Europe/Berlin --input order=17
      afl-stream schedule create often Checkout --every 15m --input order=17 --overlap queue
      afl-stream schedule create january Checkout --cron "@hourly" --start 2030-01-01 --end 2030-01-31T23:59
    """
    options = CreateOptions(**given)
    if (options.cron is None) == (options.every is None):
        found = "neither is given" if options.cron is None else "both are given"
        raise click.UsageError(f'give either --cron, for instance --cron "30 2 * * *", or --every 15m; {found}')
    from afl.compiled.sensitive import sensitive_marks
    from afl_stream.commands.schedules.reports import next_documents, show_next_firings, spec_document
    from afl_stream.schedules.spec import check_fires, command_of, spec_of
    from afl_stream.sensitive.redaction import Redaction
    from afl_stream.visibility.schedules import times_text
    from afl_stream.wire.schedule_commands import check_schedule_id

    check_schedule_id(options.schedule_id)
    now_ms, terminal = epoch_ms(), invocation.terminal()

    def put(client: Client, timeout_s: float | None) -> Lifecycle | None:
        return client.put_schedule(options.schedule_id, spec, paused=options.paused, answer_timeout_s=timeout_s)

    config = invocation.settings()
    from afl_stream.client.client import Client

    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics("commands")
        with _named_by_options():
            asked, program = _spec(client, options)
            spec = spec_of(command_of(options.schedule_id, asked))
            check_fires(spec, now_ms)
        with store_here(config, transport) as store:
            is_known = store is not None and store.schedule(options.schedule_id) is not None
        answer = _ask(invocation, client, put)
    if terminal.as_json:
        names = sensitive_marks(program, config.sensitive.patterns).params_of(spec.workflow)
        shown_inputs = Redaction(config.sensitive.patterns).of(spec.workflow, spec.inputs, names)
        shown = spec_document(replace(spec, inputs=shown_inputs))
        document = {"schedule_id": options.schedule_id, **shown, "paused": options.paused}
        terminal.document({**document, "next_firings": next_documents(spec, now_ms), "answered": answer is not None})
        return ExitCode.OK
    verb = "replaced" if is_known else "created"
    terminal.line(f"schedule {options.schedule_id} is {verb}: it starts {spec.workflow}  {times_text(spec)}")
    show_next_firings(terminal, spec, now_ms, "next firings, once it is resumed" if options.paused else "next firings")
    _remark(invocation, "keeps", answer)
    return ExitCode.OK


@schedule_group.command("list", short_help="List the schedules, each with its next firing.")
@reveal_option
@common
def list_command(invocation: Invocation, *, reveal: bool) -> ExitCode:
    """List the schedules, each with its next firing in its own time zone. Reads the store.

    \b
    Examples:
      afl-stream schedule list
      afl-stream schedule list --json | jq '.[].next_firings[0]'
    """
    from afl_stream.commands.schedules.reports import schedule_document, show_list
    from afl_stream.sensitive.redaction import Redaction
    from afl_stream.visibility.schedules import read_schedules, shown_schedule

    config, terminal, now_ms = invocation.settings(), invocation.terminal(), epoch_ms()
    redaction = Redaction(config.sensitive.patterns, reveals=reveal)
    with open_store(config) as store:
        terminal.remark(described_store(config))
        found, wrong = read_schedules(store)
        schedules = [shown_schedule(schedule, store, redaction) for schedule in found]
    for text in wrong:
        terminal.warn(text)
    if terminal.as_json:
        terminal.document([schedule_document(schedule, now_ms) for schedule in schedules])
    elif schedules:
        show_list(terminal, schedules, now_ms)
    else:
        example = invocation.command_line("schedule", "create", "nightly", "WORKFLOW", "--cron", "30 2 * * *")
        terminal.remark(f"no schedules yet; create one with: {example}")
    return ExitCode.OK


@schedule_group.command("show", short_help="Show a schedule, and its next five firings.")
@click.argument("schedule_id", metavar="ID")
@reveal_option
@common
def show_command(invocation: Invocation, schedule_id: str, *, reveal: bool) -> ExitCode:
    """Show what the schedule ID says, what it has done, and its next five firings. Reads the store.

    \b
    Examples:
      afl-stream schedule show nightly
    """
    from afl_stream.commands.schedules.reports import schedule_document, show_schedule
    from afl_stream.sensitive.redaction import Redaction
    from afl_stream.visibility.schedules import shown_schedule

    config, terminal, now_ms = invocation.settings(), invocation.terminal(), epoch_ms()
    with open_store(config) as store:
        terminal.remark(described_store(config))
        redaction = Redaction(config.sensitive.patterns, reveals=reveal)
        schedule = shown_schedule(_found(invocation, store, schedule_id), store, redaction)
        last_run = schedule.state.last_run
        row = None if last_run is None else store.load_workflow(last_run)
    status = None if row is None else row.status
    if terminal.as_json:
        terminal.document({**schedule_document(schedule, now_ms), "last_run_status": status})
    else:
        show_schedule(terminal, schedule, status, now_ms)
    return ExitCode.OK


@schedule_group.command("pause")
@click.argument("schedule_id", metavar="ID")
@common
def pause_command(invocation: Invocation, schedule_id: str) -> ExitCode:
    """Let the schedule ID start nothing until it is resumed. What falls into the pause is not made up.

    \b
    Examples:
      afl-stream schedule pause nightly
    """
    return _change(
        invocation, schedule_id, "paused", lambda client, s: client.pause_schedule(schedule_id, answer_timeout_s=s)
    )


@schedule_group.command("resume")
@click.argument("schedule_id", metavar="ID")
@common
def resume_command(invocation: Invocation, schedule_id: str) -> ExitCode:
    """Let the paused schedule ID fire again.

    \b
    Examples:
      afl-stream schedule resume nightly
    """
    return _change(
        invocation, schedule_id, "resumed", lambda client, s: client.resume_schedule(schedule_id, answer_timeout_s=s)
    )


@schedule_group.command("delete")
@click.argument("schedule_id", metavar="ID")
@common
def delete_command(invocation: Invocation, schedule_id: str) -> ExitCode:
    """Delete the schedule ID. Runs that it has started continue.

    \b
    Examples:
      afl-stream schedule delete nightly
    """
    return _change(
        invocation, schedule_id, "deleted", lambda client, s: client.delete_schedule(schedule_id, answer_timeout_s=s)
    )


@schedule_group.command("trigger", short_help="Start a run of the schedule ID now.")
@click.argument("schedule_id", metavar="ID")
@common
def trigger_command(invocation: Invocation, schedule_id: str) -> ExitCode:
    """Start a run of the schedule ID now, whatever else of it runs, and even if it is paused.

    The run's id ends with the time and -t. On Kafka it is printed; afl-stream schedule show names it, too.

    \b
    Examples:
      afl-stream schedule trigger nightly
    """
    return _change(
        invocation, schedule_id, "triggered", lambda client, s: client.trigger_schedule(schedule_id, answer_timeout_s=s)
    )


Give = Callable[["Client", "float | None"], "Lifecycle | None"]


def _change(invocation: Invocation, schedule_id: str, done: str, give: Give) -> ExitCode:
    """Send a command about a schedule, which is looked for first where the store is at hand."""
    from afl_stream.client.client import Client
    from afl_stream.wire.command_answers import REPEATED
    from afl_stream.wire.schedule_commands import check_schedule_id

    check_schedule_id(schedule_id)
    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport, Client(config, transport) as client:
        client.require_topics("commands")
        with store_here(config, transport) as store:
            if store is not None and store.schedule(schedule_id) is None:
                _warn_or_refuse(invocation, store, schedule_id)
        answer = _ask(invocation, client, give)
    if terminal.as_json:
        document = {"schedule_id": schedule_id, "asked": done, "answered": answer is not None}
        terminal.document({**document, **((answer.outputs if answer is not None else None) or {})})
        return ExitCode.OK
    if answer is not None and answer.kind == REPEATED:
        terminal.line(f"schedule {schedule_id} is {done} already: nothing was changed")
        return ExitCode.OK
    terminal.line(f"schedule {schedule_id} is {'' if answer is not None else 'to be '}{done}")
    if answer is not None and answer.outputs is not None:
        terminal.line(f"run {answer.outputs.get('workflow_id')}")
    _remark(invocation, "does", answer)
    return ExitCode.OK


def _warn_or_refuse(invocation: Invocation, store: EngineStore, schedule_id: str) -> None:
    """Refuse a command about a schedule that the store does not have.

    On the embedded log the command that creates it may still wait for its evaluator: there it is a warning.
    """
    try:
        _found(invocation, store, schedule_id)
    except NotFound as error:
        if invocation.settings().is_kafka:
            raise
        invocation.terminal().warn(f"Note: {error}; this is sent all the same: a command before it may create it")


def _ask(invocation: Invocation, client: Client, give: Give) -> Lifecycle | None:
    from afl_stream.commands.asking import ask

    return ask(invocation, client, lambda timeout_s: give(client, timeout_s))


def _remark(invocation: Invocation, verb: str, answer: Lifecycle | None) -> None:
    from afl_stream.commands.asking import what_comes_next

    invocation.terminal().remark(what_comes_next(invocation, verb, is_answered=answer is not None))


@contextmanager
def _named_by_options() -> Iterator[None]:
    """Name what is wrong with a schedule as the option that gave it. Raises CommandRefused."""
    from afl_stream.schedules.spec import ScheduleRefused

    try:
        yield
    except ScheduleRefused as error:
        raise CommandRefused(f"{_OPTIONS.get(error.part, error.part)}: {error.text}") from None


def _spec(client: Client, options: CreateOptions) -> tuple[ScheduleSpec, CompiledProgram]:
    """Return what the options say, for the deployed program's workflow, and that program.

    Raises what reading an option raises.
    """
    from afl_stream.commands.programs import checked_inputs
    from afl_stream.schedules.spec import Overlap, ScheduleSpec, zone_of

    if options.zone is not None and options.cron is None:
        raise CommandRefused("--zone goes with --cron; an interval has none, and its --start may name its own offset")
    zone_name = _UTC if options.zone is None else options.zone
    zone = zone_of(zone_name)
    program, name = client.definitions.find(options.workflow)
    _, inputs = checked_inputs(program, name, options.inputs, options.inputs_document)
    spec = ScheduleSpec(
        workflow=name,
        inputs=inputs,
        cron=options.cron,
        time_zone=zone_name,
        interval_ms=None if options.every is None else _length_ms("--every", options.every),
        start_at=None if options.start is None else _moment_ms("--start", options.start, zone),
        end_at=None if options.end is None else _moment_ms("--end", options.end, zone),
        overlap=Overlap(options.overlap),
        catch_up_ms=_length_ms("--catch-up", options.catch_up),
    )
    return spec, program


def _length_ms(option: str, text: str) -> int:
    found = duration_ms(text)
    if found is None:
        raise CommandRefused(f"{option} {text}: expected {EXAMPLES}")
    return found


def _moment_ms(option: str, text: str, zone: ZoneInfo) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        form = "a time such as 2030-01-31, 2030-01-31T08:00 or 2030-01-31T08:00+01:00"
        raise CommandRefused(f"{option} {text}: expected {form}") from None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).timestamp() * 1_000)


def _found(invocation: Invocation, store: EngineStore, schedule_id: str) -> Schedule:
    """Return a schedule. Raises NotFound with near ids, and ScheduleUnreadable."""
    from afl.core.ids import RESERVED
    from afl_stream.schedules.documents import from_document

    row = store.schedule(schedule_id)
    if row is None or schedule_id.startswith(RESERVED):
        known = [other.id for other in store.schedules() if not other.id.startswith(RESERVED)]
        hint = f"{invocation.command_line('schedule', 'list')} lists them"
        raise NotFound("schedule", schedule_id, hint, close_names(schedule_id, known, 3))
    return from_document(row.id, row.document)
