"""The command `schemas register`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common, files_argument
from afl_stream.commands.invocation import Invocation
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode
from afl_stream.registry.compatibility_levels import LEVELS, SUGGESTED

if TYPE_CHECKING:
    from afl_stream.commands.schemas.event_schemas import TopicSchema
    from afl_stream.registry.client import RegistryClient
    from afl_stream.registry.subjects import Subjects
    from afl_stream.settings.config import StreamConfig

_REGISTERED: Final = "registered"
_THERE: Final = "there already"
_REFUSED: Final = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The outcome for one schema. `level` is the subject's, `level_set` whether this call has set it."""

    schema: TopicSchema
    subject: str
    action: str
    level: str
    level_set: bool
    schema_id: int | None = None
    why: tuple[str, ...] = ()


@click.command("register")
@files_argument(required=False)
@click.option(
    "--compatibility",
    type=click.Choice(list(LEVELS), case_sensitive=False),
    help=f"Level to give the subjects.  [default: their own; {SUGGESTED} for subjects that have none]",
)
@click.option(
    "--pubsub", "workflows", multiple=True, metavar="MODULE:WORKFLOW", help="Also for the topics of this workflow."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be registered or refused.")
@common
def register_command(
    invocation: Invocation, files: Sequence[str], compatibility: str | None, workflows: Sequence[str], dry_run: bool
) -> ExitCode:
    """Register the schemas of the FILEs' event facets, and those of the records that every deployment writes, with the
    schema registry.

    What is registered already stays, so that the command may be repeated. A refused schema is reported with what does
    not fit, and does not stop the others; the exit code is 1 then.

    \b
    Examples:
      afl-stream schemas register orders.afl --dry-run
      afl-stream schemas register orders.afl
      afl-stream schemas register orders.afl --compatibility BACKWARD_TRANSITIVE
    """
    from afl_stream.commands.programs import compile_program
    from afl_stream.commands.schemas.event_schemas import ProgramSchemas, own_schemas
    from afl_stream.registry.client import RegistryClient
    from afl_stream.registry.subjects import Subjects
    from afl_stream.topics.declared import Topology

    config, terminal = invocation.settings(), invocation.terminal()
    if not config.registry.urls:
        raise CommandRefused("no registry is set: give registry.url, or AFL_REGISTRY_URL=http://host:8081")
    topology = Topology(config)
    schemas = own_schemas(topology)
    if files:
        program = compile_program(files, terminal, invocation.strictness)
        schemas += ProgramSchemas(program).on_topics(topology)
    for workflow in workflows:
        schemas += _of_workflow(config, workflow)
    subjects = Subjects(config.registry.subject_strategy, topology)
    with closing(RegistryClient(config.registry)) as client:
        registrar = _Registrar(client, subjects, compatibility.upper() if compatibility else None, dry_run)
        outcomes = list(registrar.registrations(schemas))
    _show(invocation, outcomes, client.url, dry_run=dry_run)
    return ExitCode.WORK_LEFT if any(outcome.action == _REFUSED for outcome in outcomes) else ExitCode.OK


class _Registrar:
    """Registers schemas one after another."""

    def __init__(self, client: RegistryClient, subjects: Subjects, level: str | None, dry_run: bool) -> None:
        self._client = client
        self._subjects = subjects
        self._level = level
        self._dry_run = dry_run

    def registrations(self, schemas: Sequence[TopicSchema]) -> Iterator[Registration]:
        """Yield the outcome of each subject's schema. Raises SchemaUnavailable."""
        done = set()
        for schema in schemas:
            subject = self._subjects.of(schema.topic, schema.schema)
            if (subject, schema.schema.text) not in done:
                done.add((subject, schema.schema.text))
                yield self._one(schema, subject)

    def _one(self, schema: TopicSchema, subject: str) -> Registration:
        from afl_stream.registry.errors import SchemaIncompatible

        text = schema.schema.text
        schema_id, own = self._client.id_of(subject, text), self._client.compatibility(subject)
        level = self._level or own or SUGGESTED
        level_set = level != own
        why: tuple[str, ...] = ()
        action = _THERE
        if schema_id is None:
            # Looked at before the registry is asked: it says less about what does not fit.
            why = self._misfits(subject, text, level)
            action = _REFUSED if why else _REGISTERED
        if self._dry_run or why:
            return self._outcome(schema, subject, action, level, level_set and not why, schema_id, why)
        if schema_id is None:
            try:
                schema_id = self._client.register(schema.topic, subject, schema.name, text)
            except SchemaIncompatible as error:
                return self._outcome(schema, subject, _REFUSED, level, False, None, (error.why,))
        if level_set:
            # Behind the first version: there is no subject before it.
            self._client.set_compatibility(subject, level)
        return self._outcome(schema, subject, action, level, level_set, schema_id, ())

    def _misfits(self, subject: str, text: str, level: str) -> tuple[str, ...]:
        from afl_stream.commands.schemas.comparing import KnownSchema, compared

        known = [KnownSchema(f"version {number}", older) for number, older in self._client.texts(subject)]
        return tuple(finding.sentence() for finding in compared(text, known, level))

    @staticmethod
    def _outcome(
        schema: TopicSchema,
        subject: str,
        action: str,
        level: str,
        level_set: bool,
        schema_id: int | None,
        why: tuple[str, ...],
    ) -> Registration:
        return Registration(
            schema=schema,
            subject=subject,
            action=action,
            level=level,
            level_set=level_set,
            schema_id=schema_id,
            why=why,
        )


def _of_workflow(config: StreamConfig, workflow: str) -> list[TopicSchema]:
    from afl_stream.commands.pubsub.workflows import load_workflow
    from afl_stream.commands.schemas.event_schemas import hosted_schemas
    from afl_stream.pubsub.hosting.topics import WorkflowTopics

    definition = load_workflow(workflow).definition
    topics = WorkflowTopics(config, definition.name, definition.topics)
    return hosted_schemas([*topics.of.values(), topics.status, topics.state])


def _show(invocation: Invocation, outcomes: Sequence[Registration], url: str, *, dry_run: bool) -> None:
    terminal = invocation.terminal()
    if terminal.as_json:
        terminal.document({"registry": url, "dry_run": dry_run, "schemas": [_document(each) for each in outcomes]})
        return
    words = {_REGISTERED: "would be registered", _REFUSED: "would be refused"} if dry_run else {}
    terminal.table(
        ("subject", "schema of", "action", "id", "compatibility"),
        [
            (
                each.subject,
                each.schema.name,
                words.get(each.action, each.action),
                "-" if each.schema_id is None else str(each.schema_id),
                f"{each.level} (set)" if each.level_set and not dry_run else each.level,
            )
            for each in outcomes
        ],
        whole=("subject",),
    )
    for each in outcomes:
        if each.why:
            terminal.warn_of(f"{each.subject} refuses the schema of {each.schema.name} ({each.schema.topic})", each.why)
    counts = {action: sum(each.action == action for each in outcomes) for action in (_REGISTERED, _THERE, _REFUSED)}
    terminal.remark(", ".join(f"{count} {words.get(action, action)}" for action, count in counts.items()))


def _document(outcome: Registration) -> dict[str, object]:
    return {
        "subject": outcome.subject,
        "topic": outcome.schema.topic,
        "facet": outcome.schema.facet,
        "record": outcome.schema.record,
        "action": {_REGISTERED: "registered", _THERE: "there", _REFUSED: "refused"}[outcome.action],
        "id": outcome.schema_id,
        "compatibility": outcome.level,
        "why": list(outcome.why),
    }
