"""Dead letters: lists of them, and one with its record decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from typing import Final

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_line
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dead_letters import DeadLetter, DeadLetters, Hop, LetterFilter, LetterSubject
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.sensitive.redaction import REDACTED, Redaction
from afl_stream.settings.moments import TIME_FORMS, moment_ms
from afl_stream.topics.declared import Topology
from afl_stream.web.parameters import BadParameter

_READ_S: Final = 10.0
MOST_LETTERS: Final = 500
HOPS: Final = tuple(hop.value for hop in Hop)


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterView:
    """One dead letter, and what its record is about. `value` is the decoded record, of one letter alone."""

    letter: DeadLetter
    subject: LetterSubject
    value: object = None
    problem: str = ""

    @property
    def state(self) -> str:
        """Return what has become of it."""
        return "dropped" if self.letter.is_dropped else "replayed" if self.letter.is_replayed else "open"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        letter, subject = self.letter, self.subject
        return {
            "place": str(letter.place),
            "state": self.state,
            "hop": subject.hop.value,
            "reason": letter.reason,
            "error_class": letter.error_class,
            "error": letter.error,
            "at_ms": letter.at_ms,
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "workflow_id": subject.workflow_id or None,
            "step_id": subject.step_id or None,
            "facet": subject.facet or None,
            "record_type": subject.record_type or None,
            "attempt": letter.attempt,
            "group": letter.group or None,
            "agent": letter.agent or None,
            "key": None if letter.key is None else letter.key.decode("utf-8", "backslashreplace"),
            "size_bytes": len(letter.value or b""),
            "value": self.value,
            "problem": self.problem or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterChoice:
    """A choice of dead letters, as it stands in a url."""

    hop: str = ""
    reason: str = ""
    facet: str = ""
    workflow: str = ""
    text: str = ""
    since: str = ""
    handled: bool = False

    def filter(self, now_ms: int) -> LetterFilter:
        """Return the filter. Raises BadParameter."""
        if self.hop and self.hop not in HOPS:
            raise BadParameter("hop", self.hop, ", ".join(HOPS))
        return LetterFilter(
            hops=frozenset({Hop(self.hop)} if self.hop else ()),
            reasons=frozenset({self.reason} if self.reason else ()),
            facet=self.facet,
            workflow_id=self.workflow,
            text=self.text,
            since_ms=self._since_ms(now_ms),
            replayed=None if self.handled else False,
            dropped=None if self.handled else False,
        )

    def _since_ms(self, now_ms: int) -> int | None:
        found = moment_ms(self.since, now_ms) if self.since else None
        if self.since and found is None:
            raise BadParameter("since", self.since, TIME_FORMS)
        return found


def find_letters(deployment: Deployment, choice: LetterChoice) -> tuple[list[LetterView], int]:
    """Return the newest letters that fit, and how many fit. Raises BadParameter and what the transport raises."""
    wanted = choice.filter(deployment.clock.now_ms())
    with opened_letters(deployment) as letters:
        found = letters.find(wanted)[::-1]
        return [LetterView(letter=one, subject=letters.subject_of(one)) for one in found[:MOST_LETTERS]], len(found)


def show_letter(deployment: Deployment, place: str) -> LetterView:
    """Return one letter with its record. Raises NoSuchLetter, BadPlace, UnknownTopic."""
    redaction = Redaction(deployment.config.sensitive.patterns)
    with opened_letters(deployment) as letters:
        letter = letters.get(place)
        subject = letters.subject_of(letter)
        try:
            message = redaction.message(letters.message_of(letter), letter.headers)
        except AFLError as error:
            hidden = redaction.hides(letter.headers)
            text = REDACTED if hidden else (letter.value or b"")[:4_000].decode("utf-8", "backslashreplace")
            return LetterView(letter=letter, subject=subject, value=text, problem=exception_line(error))
    return LetterView(letter=letter, subject=subject, value=asdict(message) if is_dataclass(message) else str(message))


@contextmanager
def opened_letters(deployment: Deployment) -> Iterator[DeadLetters]:
    """Open the dead letters of a deployment, and close them at the end."""
    topology = Topology(deployment.config)
    with (
        deployment.transport() as transport,
        closing(DeploymentCodec(deployment.config, transport, topology)) as schemas,
        DeadLetters(deployment.config, transport, topology=topology, codec=schemas.codec, timeout_s=_READ_S) as letters,
    ):
        yield letters
