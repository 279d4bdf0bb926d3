"""The command `dlq show`: one dead letter with its reason, its record, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.dlq.choosing import letter_document, opened_letters, state_of
from afl_stream.commands.refusals import NotFound
from afl_stream.commands.sensitive.shown import reveal_option
from afl_stream.commands.terminal import Terminal, time_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.commands.invocation import Invocation
    from afl_stream.dead_letters import DeadLetter, DeadLetters, LetterSubject
    from afl_stream.sensitive.redaction import Redaction
    from afl_stream.transport import Headers

#: What would help, by reason. The others need a look at the error's text.
REMEDIES: Final = {
    "AnswerRefused": "its sender does not know the token of the event: agents must repeat it, and evaluators must know "
    "the key (answers.token_secret, answers.older_secrets)",
    "AnswerExpired": "the step did not ask in time: is the step id right, and does its run exist?",
    "TooManyParked": "too many answers came before their steps: evaluator.max_parked_answers and its neighbours",
    "UnknownProgram": "deploy the program (afl-stream deploy), then replay",
    "AlreadyExists": "a run of this id exists with other inputs or another program: start with another id, then drop",
    "unknown_schema": "its schema is not registered: register it, then replay",
    "PoisonEvent": "its handler ended several processes: repair the handler, then replay and retry the step",
    "too_old": "an older release wrote it: upgrade that writer, and let it send again",
}
#: Characters of a value without a meaning that are shown; --json has all of it.
_LONGEST_RAW: Final = 200


@click.command("show")
@click.argument("place", metavar="PLACE")
@reveal_option
@common
def show_command(invocation: Invocation, place: str, reveal: bool) -> ExitCode:
    """Show the dead letter at PLACE, as `list` names it: why it was given up, where it was, and what its record says.

    \b
    Examples:
      afl-stream dlq show 'afl.dlq.control[0]@17'
      afl-stream dlq show 'afl.dlq.events.billing.Pay[3]@0' --json
    """
    from afl_stream.dead_letters import NoSuchLetter
    from afl_stream.sensitive.redaction import Redaction

    config, terminal = invocation.settings(), invocation.terminal()
    with opened_letters(invocation, config) as letters:
        try:
            letter = letters.get(place)
        except NoSuchLetter as error:
            raise not_found(invocation, error) from error
        subject = letters.subject_of(letter)
        redaction = Redaction(config.sensitive.patterns, reveals=reveal)
        record, problem = record_of(letters, letter, redaction)
        is_hidden = redaction.hides(letter.headers)
        if terminal.as_json:
            terminal.document(
                {
                    **letter_document(letters, letter),
                    "headers": _headers_document(letter.headers),
                    "record": record,
                    "unreadable_because": problem or None,
                    "value_base64": None if is_hidden else _base64(letter.value),
                }
            )
            return ExitCode.OK
    _show(terminal, letter, subject)
    if record is not None:
        terminal.values("record", record.items())
    elif is_hidden:
        terminal.line(f"record that cannot be read here, and may be sensitive (--reveal shows it): {problem}")
    elif letter.value:
        terminal.line(f"record that cannot be read here: {problem}")
        terminal.line(f"  {letter.value[:_LONGEST_RAW]!r}{' ...' if len(letter.value) > _LONGEST_RAW else ''}")
    _show_next(invocation, terminal, letter, subject)
    return ExitCode.OK


def not_found(invocation: Invocation, error: Exception) -> NotFound:
    """Return the error for a place without a letter, with the command that lists them."""
    place = getattr(error, "place", "")
    look = invocation.command_line("dlq", "list", "--handled")
    return NotFound("dead letter", str(place), f"it may be past its topic's retention, or a note; {look} lists them")


def _show(terminal: Terminal, letter: DeadLetter, subject: LetterSubject) -> None:
    state = state_of(letter)
    terminal.line(f"{letter.place}{f'  {state}' if state else ''}")
    terminal.line(f"{letter.reason}: {letter.error.removeprefix(f'{letter.reason}: ')}")
    origin = f"{letter.topic}[{letter.partition}]@{letter.offset}" if letter.topic else "-"
    facts = [
        ("given up", time_text(letter.at_ms)),
        ("by", " of group ".join(part for part in (letter.agent, letter.group) if part)),
        ("record", " of ".join(part for part in (subject.record_type, subject.facet) if part)),
        ("was at", origin),
        ("written", time_text(max(letter.timestamp_ms, 0))),
        ("run", subject.workflow_id),
        ("step", subject.step_id),
        ("attempt", "" if letter.attempt is None else str(letter.attempt)),
        ("tries", "" if letter.tries is None else f"{letter.tries} of its handler"),
        ("key", "" if letter.key is None else letter.key.decode("utf-8", "backslashreplace")),
        ("replay of", letter.replayed_from),
        ("dropped", f"{time_text(letter.dropped_at_ms)} {letter.dropped_because}" if letter.is_dropped else ""),
    ]
    for name, text in facts:
        if text:
            terminal.line(f"  {name:<9}  {text}")


def _show_next(invocation: Invocation, terminal: Terminal, letter: DeadLetter, subject: LetterSubject) -> None:
    """Say what would help."""
    from afl_stream.dead_letters import Hop

    if (remedy := REMEDIES.get(letter.reason)) is not None:
        terminal.remark(remedy)
    if letter.is_value_omitted:
        terminal.remark("its value was too large for the topic of dead letters, so it cannot be replayed")
    elif letter.is_open:
        terminal.remark(f"send it again: {invocation.command_line('dlq', 'replay', str(letter.place))}")
    if subject.hop is Hop.EVENTS and subject.workflow_id:
        retry = invocation.command_line("retry", subject.workflow_id)
        terminal.remark(f"if its step has failed since, no answer to it counts; ask again with: {retry}")
    if letter.is_open:
        terminal.remark(f"leave it out of lists: {invocation.command_line('dlq', 'drop', str(letter.place))}")


def record_of(letters: DeadLetters, letter: DeadLetter, redaction: Redaction) -> tuple[dict[str, object] | None, str]:
    """Return what a letter's record says, or why it cannot be read."""
    from dataclasses import asdict

    from afl_stream.errors import StreamError

    if not letter.value:
        return None, "it has no value"
    try:
        message = redaction.message(letters.message_of(letter), letter.headers)
    except StreamError as error:
        return None, str(error)
    return {name: value for name, value in asdict(message).items() if value is not None}, ""


def _headers_document(headers: Headers) -> list[dict[str, object]]:
    return [
        {"name": name, "value": None if value is None else value.decode("utf-8", "backslashreplace")}
        for name, value in headers
    ]


def _base64(value: bytes | None) -> str | None:
    from base64 import b64encode

    return None if value is None else b64encode(value).decode()
