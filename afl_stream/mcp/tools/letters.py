"""Tools about dead letters: `afl_dlq` lists and shows them, `afl_manage_dlq` replays or drops them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal

from pydantic import BaseModel, Field

from afl.core.clock import epoch_ms
from afl_stream.commands.dlq.choosing import letter_document, moment_ms
from afl_stream.commands.dlq.showing import REMEDIES, record_of
from afl_stream.commands.invocation import open_transport
from afl_stream.dead_letters import DeadLetter, DeadLetters, Hop, LetterFilter
from afl_stream.mcp.bounds import RUN_VALUE_CHARS, bounded_text, bounded_values, page_within
from afl_stream.mcp.deployment import Deployment
from afl_stream.mcp.tool import Arguments, Names, Result, Tool
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.redaction import Redaction
from afl_stream.topics.declared import Topology


class LetterArguments(Arguments):
    """Which dead letters to list, or the one to show."""

    place: str | None = Field(
        default=None, description="Show this one with its record: the `place` of a list, such as afl.dlq.control[0]@17."
    )
    hop: Literal["events", "control", "commands", "external", "other"] | None = Field(
        default=None, description="Where it was on its way: events of facets, answers (control), commands, ..."
    )
    reason: Names = Field(default=[], description="Codes of reasons, such as bad_json or UnknownProgram.")
    facet: str = ""
    run_id: str = ""
    step_id: str = ""
    text: str = Field(default="", description="A part of the error's text.")
    since: str | None = Field(default=None, description="Given up since: an age such as 2h, or a time.")
    handled: bool = Field(default=False, description="Also those that were replayed or dropped.")
    limit: int = Field(default=30, ge=1, le=200, description="Letters of a page.")
    offset: int = Field(default=0, ge=0, description="next_offset of the page before.")


class Letter(BaseModel):
    """One record that could not be delivered, and why."""

    place: str
    hop: str
    reason: str
    error: str
    at_ms: int
    topic: str
    partition: int | None = None
    offset: int | None = None
    run_id: str | None = None
    step_id: str | None = None
    facet: str | None = None
    record_type: str | None = None
    attempt: int | None = None
    group: str | None = None
    agent: str | None = None
    replayed: bool
    dropped: bool


class Letters(Result):
    """Dead letters, the newest first; or one with its record."""

    letters: list[Letter]
    total: int = Field(description="Letters that fit.")
    next_offset: int | None = None
    record: dict[str, Any] | None = Field(default=None, description="What the record of the one that is shown says.")
    unreadable_because: str | None = None
    help: str | None = Field(default=None, description="What would help.")


class HandleArguments(Arguments):
    """The dead letters to handle."""

    action: Literal["replay", "drop"] = Field(
        description="replay: send the record to its topic again; drop: mark it as done with."
    )
    places: list[str] = Field(min_length=1, max_length=100, description="`place` of each, from afl_dlq.")
    reason: str = Field(default="", max_length=2_000, description="For drop: kept with the letter.")
    again: bool = Field(default=False, description="For replay: also what was replayed or dropped before.")


class Handled(Result):
    """What became of the dead letters."""

    action: str
    done: list[str] = Field(description="Places that were replayed or dropped by this call.")
    before: list[str] = Field(description="Places of which an earlier call had done that.")


@contextmanager
def _opened(deployment: Deployment) -> Iterator[DeadLetters]:
    topology = Topology(deployment.config)
    with (
        open_transport(deployment.config) as transport,
        closing(DeploymentCodec(deployment.config, transport, topology)) as schemas,
        DeadLetters(deployment.config, transport, topology=topology, codec=schemas.codec) as letters,
    ):
        yield letters


def find_letters(deployment: Deployment, arguments: LetterArguments) -> Letters:
    """Return a page of dead letters, or one with its record."""
    with _opened(deployment) as letters:
        if arguments.place is not None:
            return _shown(deployment, letters, letters.get(arguments.place))
        found = letters.find(
            LetterFilter(
                hops=frozenset() if arguments.hop is None else frozenset({Hop(arguments.hop)}),
                reasons=frozenset(arguments.reason),
                facet=arguments.facet,
                workflow_id=arguments.run_id,
                step_id=arguments.step_id,
                text=arguments.text,
                since_ms=None if arguments.since is None else moment_ms("since", arguments.since, epoch_ms()),
            )
        )
        wanted = [letter for letter in reversed(found) if arguments.handled or letter.is_open]
        page = [_letter(letters, letter) for letter in wanted[arguments.offset :][: arguments.limit]]
    shown = list(page_within(page, lambda letter: len(letter.model_dump_json())))
    end = arguments.offset + len(shown)
    return Letters(letters=shown, total=len(wanted), next_offset=end if end < len(wanted) else None)


def _shown(deployment: Deployment, letters: DeadLetters, letter: DeadLetter) -> Letters:
    record, problem = record_of(letters, letter, Redaction(deployment.config.sensitive.patterns))
    return Letters(
        letters=[_letter(letters, letter)],
        total=1,
        record=None
        if record is None
        else bounded_values(record, RUN_VALUE_CHARS, lambda name: f"{letter.place} {name}"),
        unreadable_because=bounded_text(problem) or None,
        help=REMEDIES.get(letter.reason),
    )


def _letter(letters: DeadLetters, letter: DeadLetter) -> Letter:
    document: dict[str, Any] = letter_document(letters, letter)
    document["run_id"] = document.pop("workflow_id")
    document["error"] = bounded_text(letter.error)
    return Letter(**{name: document[name] for name in Letter.model_fields})


def _handle(deployment: Deployment, arguments: HandleArguments) -> Handled:
    done: list[str] = []
    before: list[str] = []
    with _opened(deployment) as letters:
        if arguments.action == "replay":
            for replayed in letters.replay(arguments.places, again=arguments.again):
                (done if replayed.was_sent else before).append(str(replayed.letter.place))
        else:
            for dropped in letters.drop(arguments.places, arguments.reason):
                (done if dropped.was_noted else before).append(str(dropped.letter.place))
    deployment.settle()
    return Handled(action=arguments.action, done=done, before=before)


TOOLS = (
    Tool(
        name="afl_dlq",
        title="Look at dead letters",
        description="List the records that could not be delivered (answers that were refused, unreadable records, "
        "starts of unknown programs ...) that were neither replayed nor dropped; with `place` show one with its "
        "record. Sensitive values are hidden.",
        arguments=LetterArguments,
        result=Letters,
        run=find_letters,
    ),
    Tool(
        name="afl_manage_dlq",
        title="Replay or drop dead letters",
        description="Send the records of dead letters to their topics again, once their cause is mended, or mark them "
        "as done with.",
        arguments=HandleArguments,
        result=Handled,
        run=_handle,
        writes=True,
        destructive=True,
    ),
)
