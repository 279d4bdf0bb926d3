"""The command `schemas check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from afl_stream.commands.arguments import common, files_argument
from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode
from afl_stream.registry.compatibility_levels import LEVELS

if TYPE_CHECKING:
    from afl_stream.commands.schemas.comparing import SchemaFinding
    from afl_stream.commands.schemas.event_schemas import ProgramSchemas, TopicSchema
    from afl_stream.commands.schemas.known import KnownSchemas
    from afl_stream.commands.schemas.running import RunsLookedAt
    from afl_stream.settings.config import StreamConfig
    from afl_stream.topics.declared import Topology
    from afl_stream.transport import Transport

#: Runs that are named for each finding; JSON names all.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSchema:
    """One facet's schema beside its earlier ones. `status`: new, same, changed or breaking."""

    schema: TopicSchema
    level: str
    status: str
    workflows: Sequence[str]
    findings: Sequence[SchemaFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The options of `schemas check`."""

    against: str | None = None
    compatibility: str | None = None
    without_runs: bool = False


@click.command("check")
@files_argument(required=True)
@click.option(
    "--against",
    metavar="PATH",
    help="Compare with this AFL file, or with this folder of .avsc files.  [default: the registry, if one is set, else "
    "the schemas topic]",
)
@click.option(
    "--compatibility",
    type=click.Choice(list(LEVELS), case_sensitive=False),
    help="Compare by this level.  [default: the subject's in the registry, else FULL_TRANSITIVE]",
)
@click.option("--without-runs", is_flag=True, help="Do not look at the runs that are under way.")
@common
def check_command(invocation: Invocation, files: Sequence[str], **given: Any) -> ExitCode:
    """Compare the FILEs, a changed program, with the schemas that its topics have, and with the runs under way: what
    would break, on which topic, for which workflows, and why. Nothing is changed.

    Ends with 0 if nothing would break, with 1 otherwise. Runs keep the program that they began with; what is compared
    is what they and agents of the changed facets expect of each other.

    \b
    Examples:
      afl-stream schemas check orders.afl
      afl-stream schemas check orders.afl --against deployed/orders.afl
      afl-stream schemas check orders.afl --json | jq '.schemas[] | select(.status == "breaking")'
    """
    from afl_stream.commands.programs import compile_program
    from afl_stream.commands.schemas.event_schemas import ProgramSchemas
    from afl_stream.topics.declared import Topology

    options = CheckOptions(**given)
    config, terminal = invocation.settings(), invocation.terminal()
    compiled = compile_program(files, terminal, invocation.strictness)
    program, topology = ProgramSchemas(compiled), Topology(config)
    level = options.compatibility.upper() if options.compatibility else None
    runs: RunsLookedAt | None = None
    with _transport_there(config) as transport:
        with _known(invocation, config, topology, transport, options.against, level) as known:
            checked = [_checked(schema, program, known) for schema in program.on_topics(topology)]
        if not options.without_runs:
            runs = _runs(config, transport, program, compiled.fingerprint, topology)
    breaking = [each for each in checked if each.status == "breaking"]
    if terminal.as_json:
        terminal.document(_document(known.place, checked, runs))
    else:
        _show(invocation, known.place, checked, runs)
    return ExitCode.WORK_LEFT if breaking or (runs is not None and runs.findings) else ExitCode.OK


@contextmanager
def _transport_there(config: StreamConfig) -> Iterator[Transport | None]:
    """Open the transport, unless the embedded log is not there yet: a check creates nothing."""
    if not config.is_kafka and not config.log_path.exists():
        yield None
        return
    with open_transport(config) as transport:
        yield transport


@contextmanager
def _known(
    invocation: Invocation,
    config: StreamConfig,
    topology: Topology,
    transport: Transport | None,
    against: str | None,
    level: str | None,
) -> Iterator[KnownSchemas]:
    """Open the place with the earlier schemas. Raises CommandRefused for a path that is none."""
    from afl_stream.commands.schemas import known
    from afl_stream.registry.client import RegistryClient
    from afl_stream.registry.subjects import Subjects

    if against is not None:
        yield _of_path(invocation, against, level)
    elif config.registry.urls:
        with closing(RegistryClient(config.registry)) as client:
            yield known.RegisteredSchemas(client, Subjects(config.registry.subject_strategy, topology), level)
    elif transport is None or topology.schemas() not in transport.admin().topic_names():
        yield known.SchemaCollection(f"the topic {topology.schemas()}, which does not exist yet", level)
    else:
        from afl_stream.reading.topic_log import TopicLog

        with closing(TopicLog(transport, topology.schemas())) as log:
            yield known.announced_schemas(log, level)


def _of_path(invocation: Invocation, against: str, level: str | None) -> KnownSchemas:
    from afl_stream.commands.programs import compile_program
    from afl_stream.commands.schemas.event_schemas import ProgramSchemas
    from afl_stream.commands.schemas.known import schemas_of_folder, schemas_of_program

    path = Path(against)
    if path.is_dir():
        return schemas_of_folder(path, level)
    if not path.exists():
        raise CommandRefused(f"--against {against}: there is no such file or folder")
    program = compile_program([against], invocation.terminal(), invocation.strictness)
    return schemas_of_program(against, ProgramSchemas(program), level)


def _checked(schema: TopicSchema, program: ProgramSchemas, known: KnownSchemas) -> CheckedSchema:
    from afl_stream.commands.schemas.comparing import compared
    from afl_stream.wire.avro.schema import parse_schema_text

    earlier, level = known.of(schema), known.level(schema)
    findings = compared(schema.schema.text, earlier, level)
    if findings:
        status = "breaking"
    elif not earlier:
        status = "new"
    else:
        texts = {parse_schema_text(each.text).canonical for each in earlier}
        status = "same" if schema.schema.canonical in texts else "changed"
    callers = program.callers.get(schema.facet or "", ())
    return CheckedSchema(schema=schema, level=level, status=status, workflows=callers, findings=findings)


def _runs(
    config: StreamConfig, transport: Transport | None, program: ProgramSchemas, fingerprint: str, topology: Topology
) -> RunsLookedAt | None:
    """Look at the runs of the deployment's store; None where there is no store to be reached from here."""
    from afl_stream.commands.schemas.running import looked_at_runs

    if transport is None:
        return None
    with store_here(config, transport) as store:
        return None if store is None else looked_at_runs(store, program, fingerprint, topology)


def _document(place: str, checked: Sequence[CheckedSchema], runs: RunsLookedAt | None) -> dict[str, Any]:
    return {
        "against": place,
        "schemas": [
            {
                "topic": each.schema.topic,
                "facet": each.schema.facet,
                "status": each.status,
                "compatibility": each.level,
                "workflows": list(each.workflows),
                "findings": [finding.document() for finding in each.findings],
            }
            for each in checked
        ],
        "runs": None
        if runs is None
        else {
            "looked_at": runs.runs,
            "unreadable": runs.unreadable,
            "findings": [finding.document() for finding in runs.findings],
        },
    }


def _show(invocation: Invocation, place: str, checked: Sequence[CheckedSchema], runs: RunsLookedAt | None) -> None:
    terminal = invocation.terminal()
    words = {"new": "new", "same": "as it was", "changed": "changed, compatible", "breaking": "would break"}
    rows = [(each.schema.topic, each.schema.name, words[each.status], each.level) for each in checked]
    terminal.table(("topic", "facet", "schema", "compatibility"), rows, whole=("topic", "facet"))
    for each in checked:
        if each.findings:
            terminal.line("")
            terminal.line(f"{each.schema.topic} ({each.schema.name}) would break:")
            for finding in each.findings:
                terminal.line(f"  {finding.sentence()}")
            if each.workflows:
                terminal.line(f"  sent by: {', '.join(each.workflows)}")
    if runs is not None:
        for found in runs.findings:
            named = ", ".join(found.runs[:_MOST_NAMED])
            more = f" and {len(found.runs) - _MOST_NAMED:,} more" if len(found.runs) > _MOST_NAMED else ""
            count = "1 run" if len(found.runs) == 1 else f"{len(found.runs):,} runs"
            terminal.line("")
            terminal.line(f"{found.topic} ({found.facet}) would break for {count} of {found.workflow}:")
            terminal.line(f"  {found.why}")
            terminal.line(f"  runs: {named}{more}")
    breaking = sum(each.status == "breaking" for each in checked)
    of_runs = "no store here: runs were not looked at" if runs is None else f"{runs.runs:,} runs under way"
    terminal.remark(
        f"compared with {place}: {len(checked)} schema{'s' * (len(checked) != 1)}, {breaking} would break; {of_runs}"
    )
    if runs is not None and runs.unreadable:
        terminal.warn(f"the programs of {len(runs.unreadable):,} runs cannot be read, and were not compared")
    if runs is not None and runs.is_cut:
        terminal.warn("there are more runs under way than are looked at: the newest were")
