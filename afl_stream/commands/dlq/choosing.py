"""Options that choose dead letters, and the letters that they lead to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from afl.core.clock import epoch_ms
from afl_stream.commands.refusals import CommandRefused
from afl_stream.settings import moments

if TYPE_CHECKING:
    from afl_stream.commands.invocation import Invocation
    from afl_stream.dead_letters import DeadLetter, DeadLetters, LetterFilter
    from afl_stream.settings.config import StreamConfig

F = TypeVar("F", bound=Callable[..., Any])

#: The hops that --hop takes; tests compare them with afl_stream.dead_letters.Hop.
HOPS: Final = ("events", "control", "commands", "external", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The filters of a call, as they were given."""

    hops: Sequence[str] = ()
    reasons: Sequence[str] = ()
    facet: str = ""
    workflow_id: str = ""
    step_id: str = ""
    text: str = ""
    since: str | None = None
    until: str | None = None

    @property
    def is_given(self) -> bool:
        """Return whether any filter was given."""
        return self != Choice()

    def filter(self, *, replayed: bool | None = None, dropped: bool | None = None) -> LetterFilter:
        """Return the filter for letters. Raises CommandRefused for a time that is none."""
        from afl_stream.dead_letters import Hop, LetterFilter

        now_ms = epoch_ms()
        since_ms = None if self.since is None else moment_ms("--since", self.since, now_ms)
        until_ms = None if self.until is None else moment_ms("--until", self.until, now_ms)
        if since_ms is not None and until_ms is not None and until_ms <= since_ms:
            raise CommandRefused(f"--until {self.until}: expected a time after that of --since {self.since}")
        return LetterFilter(
            hops=frozenset(Hop(hop) for hop in self.hops),
            reasons=frozenset(self.reasons),
            facet=self.facet,
            workflow_id=self.workflow_id,
            step_id=self.step_id,
            text=self.text,
            since_ms=since_ms,
            until_ms=until_ms,
            replayed=replayed,
            dropped=dropped,
        )


def choosing(command: F) -> F:
    """Give a command the options that choose dead letters, as one Choice."""

    @click.option(
        "--hop",
        "hops",
        multiple=True,
        type=click.Choice(HOPS),
        help="Where it was on its way: events of facets, answers (control), commands, external events. Repeatable.",
    )
    @click.option("--reason", "reasons", multiple=True, metavar="CODE", help="Its reason: bad_json, ... Repeatable.")
    @click.option("--facet", default="", metavar="NAME", help="Events of this facet.")
    @click.option("--workflow", "workflow_id", default="", metavar="ID", help="Records of this run.")
    @click.option("--step", "step_id", default="", metavar="ID", help="Events of this step, and answers to it.")
    @click.option("--text", default="", metavar="TEXT", help="A part of the error's text.")
    @click.option("--since", metavar="TIME", help="Given up since: 2h (ago), 30d, 2030-01-31T08:00.")
    @click.option("--until", metavar="TIME", help="Given up before, in the same forms.")
    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        choice = Choice(**{name: options.pop(name) for name in Choice.__dataclass_fields__})
        return command(*args, choice=choice, **options)

    return wrapped  # type: ignore[return-value]  # click's decorators keep what they are given


def moment_ms(option: str, text: str, now_ms: int) -> int:
    """Return a time, ms since the epoch, that is given as an age or in the calendar. Raises CommandRefused."""
    found = moments.moment_ms(text, now_ms)
    if found is None:
        raise CommandRefused(f"{option} {text}: expected {moments.TIME_FORMS}")
    return found


@contextmanager
def opened_letters(invocation: Invocation, config: StreamConfig) -> Iterator[DeadLetters]:
    """Open the dead letters of the deployment, and close them at the end."""
    from afl_stream.commands.invocation import open_transport
    from afl_stream.dead_letters import DeadLetters
    from afl_stream.registry.deployment_codec import DeploymentCodec
    from afl_stream.topics.declared import Topology

    topology = Topology(config)
    remedy = invocation.command_line("topics", "apply", "FILE")
    with (
        open_transport(config, remedy=remedy) as transport,
        closing(DeploymentCodec(config, transport, topology)) as schemas,
        DeadLetters(config, transport, topology=topology, codec=schemas.codec) as letters,
    ):
        yield letters


def state_of(letter: DeadLetter) -> str:
    """Return in one word what has become of a letter; "" for nothing yet."""
    if letter.is_dropped:
        return "dropped"
    return "replayed" if letter.is_replayed else ""


def letter_document(letters: DeadLetters, letter: DeadLetter) -> dict[str, object]:
    """Return a letter as programs read it, without its record's value and headers."""
    subject = letters.subject_of(letter)
    return {
        "place": str(letter.place),
        "hop": subject.hop.value,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "reason": letter.reason,
        "error_class": letter.error_class,
        "error": letter.error,
        "at_ms": letter.at_ms,
        "workflow_id": subject.workflow_id or None,
        "step_id": subject.step_id or None,
        "facet": subject.facet or None,
        "record_type": subject.record_type or None,
        "attempt": letter.attempt,
        "tries": letter.tries,
        "group": letter.group or None,
        "agent": letter.agent or None,
        "key": None if letter.key is None else letter.key.decode("utf-8", "backslashreplace"),
        "size_bytes": len(letter.value or b""),
        "written_at_ms": letter.timestamp_ms if letter.timestamp_ms > 0 else None,
        "replayed": letter.is_replayed,
        "replayed_from": letter.replayed_from or None,
        "dropped": letter.is_dropped,
        "dropped_at_ms": letter.dropped_at_ms or None,
        "dropped_because": letter.dropped_because or None,
    }
