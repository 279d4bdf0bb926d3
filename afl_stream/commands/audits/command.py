"""The command `audit`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from afl.core.process.click_groups import LazyGroup
from afl.core.process.private_files import protect
from afl.core.process.signals import draining
from afl.core.process.standard_streams import takes_utf
from afl_stream.commands.arguments import (
    common,
    instance_id_option,
    metrics_port_option,
    service,
    unless_subcommand,
)
from afl_stream.commands.audits.moments import Begin, Moment
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.commands.runs.unknown_ids import unknown_ids
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.audit.audit import Audit, AuditConfig
    from afl_stream.audit.sinks import AuditSink
    from afl_stream.commands.idleness import Idleness
    from afl_stream.commands.terminal import Terminal
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport

#: Forms of the lines, and the ends of names that mean them.
_FORMATS: Final = {"jsonl": (), "sqlite": (".db", ".sqlite", ".sqlite3"), "parquet": (".parquet",)}
_COMMANDS: Final = {
    "verify": ("afl_stream.commands.audits.verifying:verify_command", "Check that an audit's lines are unchanged."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """The options of `audit`."""

    file: str = "-"
    format: str | None = None
    group: str | None = None
    facets: Sequence[str] = ()
    workflows: Sequence[str] = ()
    begin: int | str | None = None
    to_ms: int | None = None
    until_idle: bool = False


@click.group("audit", cls=LazyGroup, table=_COMMANDS, invoke_without_command=True)
@unless_subcommand
@click.option("--file", "file", default="-", metavar="PATH", help="Where the lines go; by default standard output.")
@click.option(
    "--format",
    type=click.Choice(list(_FORMATS)),
    help="With --file: the form of the lines.  [default: by the name: sqlite for .db, parquet for .parquet, jsonl]",
)
@click.option("--group", metavar="NAME", help="With --file: the consumer group; by default the file's own.")
@click.option("--facet", "facets", multiple=True, metavar="NAME", help="Only this facet's; repeat for several.")
@click.option("--workflow", "workflows", multiple=True, metavar="ID", help="Only this run's; repeat for several.")
@click.option(
    "--from",
    "begin",
    type=Begin(),
    metavar="WHERE",
    help="`beginning` (the default without --file), `latest`, or a time: 2026-11-30T08:15, 2h ago as 2h.",
)
@click.option("--to", "to_ms", type=Moment(), metavar="TIME", help="Only records before this time.")
@click.option("--from-beginning", is_flag=True, help="The same as --from beginning.")
@click.option("--from-end", is_flag=True, help="The same as --from latest.")
@click.option("--until-idle/--follow", default=False, help="End when everything is read, or continue (the default).")
@instance_id_option
@metrics_port_option
@common
@service
def audit_group(invocation: Invocation, from_beginning: bool, from_end: bool, **given: Any) -> ExitCode:
    """Write a line of JSON for every event, answer, command, milestone and dead letter, without taking part.

    Without --file it reads all records that the topics hold and every new one, without a consumer group, and commits
    nothing. Any number of audits may do so at once, and each sees every record.

    With --file it reads in a consumer group, and continues where the file stopped: a file gets each record once,
    whatever crashes. Each file has its own group, whose name is kept beside it (PATH.group). Audits with the same
    --group share the records: each record is in one of their files.

    Records that are missing have a line: `lost` for what the log dropped before it was read, and `gap` where nothing is
    lost, with the reason.

    \b
    Examples:
      afl-stream audit --from latest
      afl-stream audit --until-idle --facet billing.Pay --from 2h
      afl-stream audit --until-idle | jq 'select(.kind == "answer")'
      afl-stream audit --file audit.jsonl
      afl-stream audit --file audit.db --until-idle
      afl-stream audit --file audit-1.jsonl --group afl.audit.shared
      afl-stream audit verify audit.jsonl
    """
    options = _checked(AuditOptions(**given), from_beginning=from_beginning, from_end=from_end)
    from afl_stream.audit.audit import AuditConfig
    from afl_stream.audit.filters import AuditFilter
    from afl_stream.audit.group import group_of, is_own_group
    from afl_stream.reading.group_reader import LostRecords
    from afl_stream.transport import Start

    config = invocation.settings()
    from_ms = options.begin if isinstance(options.begin, int) else None
    wanted = AuditFilter(
        facets=frozenset(options.facets), workflows=frozenset(options.workflows), from_ms=from_ms, to_ms=options.to_ms
    )
    # A line reports lost records: with a stop, the reader would begin again and find fewer.
    settings = AuditConfig(
        stream=config, commands=True, external=True, lifecycle=True, dead_letters=True, wanted=wanted,
        lost_records=LostRecords.EARLIEST,
    )  # fmt: skip
    if options.file == "-":
        settings = replace(settings, alone=Start.LATEST if options.begin == "latest" else Start.EARLIEST)
        begin = {"latest": "now on"}.get(str(options.begin), "the beginning" if from_ms is None else "then on")
        return _run(invocation, settings, None, f"audit to stdout from {begin}, in no group", options)
    path = Path(options.file)
    group = group_of(config, path, options.group)
    settings = replace(
        settings,
        group=group,
        from_beginning=options.begin == "beginning",
        continues_sink=is_own_group(config, group) and (wanted.takes_all or _format_of(options) == "sqlite"),
    )
    return _run(invocation, settings, path, f"audit of group {group} to {path}", options)


def _checked(options: AuditOptions, *, from_beginning: bool, from_end: bool) -> AuditOptions:
    """Return the options, with the flags as what they mean. Raises UsageError for what makes no sense together."""
    if from_beginning and from_end:
        raise click.UsageError("--from-beginning and --from-end exclude each other")
    if options.begin is not None and (from_beginning or from_end):
        raise click.UsageError("--from says where to begin: --from-beginning and --from-end do not go with it")
    begin: int | str | None = "beginning" if from_beginning else "latest" if from_end else options.begin
    is_file = options.file != "-"
    if options.group is not None and not is_file:
        raise click.UsageError("--group goes with --file PATH: to standard output an audit reads in no group")
    if options.group is not None and not options.group.strip():
        raise click.UsageError("--group needs a name")
    if options.format is not None and not is_file:
        raise click.UsageError("--format goes with --file PATH: standard output is always lines of JSON")
    if begin == "latest" and is_file:
        flag = "--from-end" if from_end else "--from latest"
        raise click.UsageError(f"{flag} is for reading without --file: a file continues where it stopped")
    if isinstance(begin, int) and options.to_ms is not None and options.to_ms <= begin:
        raise click.UsageError("--to is not later than --from, so that no record could be between them")
    return replace(options, begin=begin)


def _format_of(options: AuditOptions) -> str:
    """Return the form of the lines: the one that is named, that of the file as it is, or that of its name."""
    from afl_stream.audit.sqlite_sink import is_database

    path = Path(options.file)
    if options.format is not None:
        return options.format
    if is_database(path):
        return "sqlite"
    return next((form for form, ends in _FORMATS.items() if path.suffix in ends), "jsonl")


def _sink_at(path: Path, form: str) -> AuditSink:
    from afl_stream.audit.audit import AuditFile
    from afl_stream.audit.sqlite_sink import AuditDatabase, is_database
    from afl_stream.commands.refusals import CommandRefused

    if form == "parquet":
        if path.exists() and not path.is_dir():
            raise CommandRefused(f"{path} is a file; Parquet needs a folder, in which each file is written whole")
        from afl_stream.audit.parquet_sink import AuditParquet

        return AuditParquet(path)
    if path.is_dir():
        raise CommandRefused(f"{path} is a folder; expected a file, or --format parquet")
    if form == "jsonl" and is_database(path):
        raise CommandRefused(f"{path} is a SQLite database, and --format jsonl would write lines of JSON into it")
    return AuditDatabase(path) if form == "sqlite" else AuditFile(path)


def _run(
    invocation: Invocation, settings: AuditConfig, path: Path | None, intent: str, options: AuditOptions
) -> ExitCode:
    """Write the records to the path, or without one to standard output."""
    from afl_stream.audit.audit import Audit, AuditStream
    from afl_stream.commands.idleness import DRAIN_LIMIT_S, Idleness, ends_when
    from afl_stream.commands.monitoring.audits import seen_audit
    from afl_stream.outage import waited_out

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config, serves=not options.until_idle) as transport:
        if path is not None:
            protect(path, config.data_dir)
        out = invocation.out or sys.stdout
        in_ascii = not takes_utf(out)
        sink: AuditSink = (
            AuditStream(out.buffer, in_ascii=in_ascii) if path is None else _sink_at(path, _format_of(options))
        )
        audit = Audit(settings, transport, sink)
        waited_out(audit.start, config.kafka.outage_timeout_s)
        with (
            seen_audit(terminal.remark, transport, audit),
            draining(audit.stop, limit_s=DRAIN_LIMIT_S, limit_code=ExitCode.UNAVAILABLE),
        ):
            terminal.remark(f"{intent}; {ends_when(options.until_idle)}")
            _warn_of_facets(terminal, config, transport, options.facets)
            for unknown in unknown_ids(config, transport, options.workflows):
                terminal.warn(unknown.note)
            if options.until_idle:
                _read_to_the_end(audit, Idleness(config))
            else:
                audit.run()
        counts = audit.counts
    if terminal.as_json and path is not None:
        terminal.document(asdict(counts))
        return ExitCode.OK
    terminal.remark(f"{counts.written} records written, {counts.unreadable} of them unreadable")
    if counts.lost:
        terminal.warn(f"{counts.lost} records were gone before they were read: see the lines of kind `lost`")
    return ExitCode.OK


def _warn_of_facets(terminal: Terminal, config: StreamConfig, transport: Transport, facets: Sequence[str]) -> None:
    """Warn of facets without a topic: misspelt, the audit would be empty for good. They may also come later."""
    if not facets:
        return
    from afl_stream.commands.facet_names import facets_with_topics, no_topic_of
    from afl_stream.topics.declared import Topology

    names = facets_with_topics(Topology(config), transport.admin().topic_names())
    known = {*names, *(name.rpartition(".")[2] for name in names)}
    for facet in facets:
        if facet not in known:
            terminal.warn(f"Note: {no_topic_of(facet, names)}")


def _read_to_the_end(audit: Audit, idleness: Idleness) -> None:
    try:
        while not audit.is_stopping:
            before = audit.counts
            lines = audit.turn(audit.config.poll_timeout_s)
            moved = audit.counts.repeated != before.repeated or audit.counts.dropped != before.dropped
            if lines or moved:
                idleness.busy()
            else:
                without = () if audit.has_partitions or audit.group is None else [audit.group]
                if idleness.is_over(without, audit.has_read_all):
                    break
    finally:
        audit.close()
