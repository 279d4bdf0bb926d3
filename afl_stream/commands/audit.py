"""The command `audit`."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from afl.core.process.private_files import protect
from afl.core.process.signals import draining
from afl.core.process.standard_streams import takes_utf
from afl_stream.commands.arguments import common, service
from afl_stream.commands.invocation import Invocation, open_transport
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.audit.audit import Audit, AuditConfig
    from afl_stream.audit.lines import AuditSink
    from afl_stream.commands.idleness import Idleness


@click.command("audit")
@click.option("--file", "file", default="-", metavar="PATH", help="Where the lines go; by default standard output.")
@click.option("--group", metavar="NAME", help="With --file: the consumer group; by default the file's own.")
@click.option("--from-beginning", is_flag=True, help="Read all that the topics still hold; the default without --file.")
@click.option("--from-end", is_flag=True, help="Without --file: read only what comes from now on.")
@click.option("--until-idle/--follow", default=False, help="End when everything is read, or continue (the default).")
@common
@service
def audit_command(
    invocation: Invocation, file: str, group: str | None, from_beginning: bool, from_end: bool, until_idle: bool
) -> ExitCode:
    """Write a line of JSON for every event, answer, command and milestone, without taking part.

    Without --file it reads all records that the topics hold and every new one, without a consumer group, and commits
    nothing. Any number of audits may do so at once, and each sees every record.

    With --file it reads in a consumer group, and continues where the file stopped: a file gets each record once,
    whatever crashes. Each file has its own group, whose name is kept beside it (PATH.group). Audits with the same
    --group share the records: each record is in one of their files.

    \b
    Examples:
      afl-stream audit --from-end
      afl-stream audit --until-idle | jq 'select(.kind == "answer")'
      afl-stream audit --file audit.jsonl
      afl-stream audit --file audit-1.jsonl --group afl.audit.shared
    """
    is_file = file != "-"
    if from_beginning and from_end:
        raise click.UsageError("--from-beginning and --from-end exclude each other")
    if group is not None and not is_file:
        raise click.UsageError("--group goes with --file PATH: to standard output an audit reads in no group")
    if group is not None and not group.strip():
        raise click.UsageError("--group needs a name")
    if from_end and is_file:
        raise click.UsageError("--from-end is for reading without --file: a file continues where it stopped")
    from afl_stream.audit.audit import AuditConfig
    from afl_stream.audit.group import group_of
    from afl_stream.reading.group_reader import LostRecords
    from afl_stream.transport import Start

    config = invocation.settings()
    settings = AuditConfig(stream=config, commands=True, external=True, lifecycle=True)
    if not is_file:
        # A line reports lost records: with a stop, the reader would begin again and find fewer.
        start = Start.LATEST if from_end else Start.EARLIEST
        settings = replace(settings, alone=start, lost_records=LostRecords.EARLIEST)
        intent = f"audit to stdout from {'now on' if from_end else 'the beginning'}, in no group"
        return _run(invocation, settings, None, intent, until_idle=until_idle)
    path = Path(file)
    settings = replace(settings, group=group_of(config, path, group), from_beginning=from_beginning)
    return _run(invocation, settings, path, f"audit of group {settings.group} to {path}", until_idle=until_idle)


def _run(
    invocation: Invocation, settings: AuditConfig, file: Path | None, intent: str, *, until_idle: bool
) -> ExitCode:
    """Write the records to the file, or without one to standard output."""
    from afl_stream.audit.audit import Audit, AuditFile, AuditStream
    from afl_stream.commands.idleness import DRAIN_LIMIT_S, Idleness, ends_when
    from afl_stream.outage import waited_out

    config, terminal = invocation.settings(), invocation.terminal()
    with open_transport(config) as transport:
        if file is not None:
            protect(file, config.data_dir)
        out = invocation.out or sys.stdout
        in_ascii = not takes_utf(out)
        sink: AuditSink = AuditStream(out.buffer, in_ascii=in_ascii) if file is None else AuditFile(file)
        audit = Audit(settings, transport, sink)
        waited_out(audit.start, config.kafka.outage_timeout_s)
        with draining(audit.stop, limit_s=DRAIN_LIMIT_S, limit_code=ExitCode.UNAVAILABLE):
            terminal.remark(f"{intent}; {ends_when(until_idle)}")
            if until_idle:
                _read_to_the_end(audit, Idleness(config))
            else:
                audit.run()
        counts = audit.counts
    if terminal.as_json and file is not None:
        terminal.document(asdict(counts))
    else:
        terminal.remark(f"{counts.written} records written, {counts.unreadable} of them unreadable")
    return ExitCode.OK


def _read_to_the_end(audit: Audit, idleness: Idleness) -> None:
    try:
        while not audit.is_stopping:
            before = audit.counts
            if audit.turn(audit.config.poll_timeout_s) or audit.counts.repeated != before.repeated:
                idleness.busy()
            else:
                without = () if audit.has_partitions or audit.group is None else [audit.group]
                if idleness.is_over(without, audit.has_read_all):
                    break
    finally:
        audit.close()
