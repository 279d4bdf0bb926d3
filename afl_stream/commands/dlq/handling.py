"""The commands `dlq replay` and `dlq drop`: chosen dead letters are sent again, or marked as done with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.dlq.choosing import Choice, choosing, opened_letters
from afl_stream.commands.dlq.listing import show_letters
from afl_stream.commands.dlq.showing import not_found
from afl_stream.commands.dlq.unmatched import remark_on_unmatched
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.commands.invocation import Invocation
    from afl_stream.commands.terminal import Terminal
    from afl_stream.dead_letters import DeadLetters

T = TypeVar("T")

#: More letters than this are handled by --all only when that is confirmed.
MANY: Final = 10

_places = click.argument("places", metavar="[PLACE]...", nargs=-1)
_all_option = click.option("--all", "everything", is_flag=True, help="All that the filters choose, or without any all.")
_dry_run_option = click.option("--dry-run", is_flag=True, help="Only show which they would be.")
_yes_option = click.option("--yes", is_flag=True, help=f"Do not ask, where --all chooses more than {MANY}.")


@click.command("replay")
@_places
@_all_option
@choosing
@click.option("--again", is_flag=True, help="Also those that were replayed before; by its place, also a dropped one.")
@_dry_run_option
@_yes_option
@common
def replay_command(
    invocation: Invocation,
    places: Sequence[str],
    everything: bool,
    choice: Choice,
    again: bool,
    dry_run: bool,
    yes: bool,
) -> ExitCode:
    """Send the records of the dead letters at PLACE to their topics again, or with --all of those that filters choose.

    A record keeps its key, value and headers, and gets the header afl.dlq.replayed_from, which names its letter. It is
    sent once: a letter that was replayed is reported and not sent again, unless --again asks for it. A call that was
    interrupted may be repeated.

    \b
    Examples:
      afl-stream dlq replay 'afl.dlq.control[0]@17'
      afl-stream dlq replay --all --reason UnknownProgram --dry-run
      afl-stream dlq replay --all --facet billing.Pay --since 2h --yes
    """
    _check(places, everything, choice)
    terminal, wanted = invocation.terminal(), _Wanted(places, choice, None if again else False, dry_run, yes)
    done = _handled(invocation, wanted, "replayed", lambda letters, chosen: letters.replay(chosen, again=again))
    if done is None:
        return ExitCode.OK
    if terminal.as_json:
        rows = [
            {"place": str(each.letter.place), "topic": each.letter.topic, "sent": each.was_sent} for each in done
        ]  # fmt: skip
        terminal.document({"replayed": rows})
        return ExitCode.OK
    for each in done:
        told = f"sent to {each.letter.topic}" if each.was_sent else "was replayed before: not sent again"
        terminal.line(f"{each.letter.place}  {told}")
    sent = sum(each.was_sent for each in done)
    repeated = len(done) - sent
    more = f"; {repeated:,} had been before (--again sends them once more)" if repeated else ""
    terminal.remark(f"{_counted(sent)} sent again{more}")
    return ExitCode.OK


@click.command("drop")
@_places
@_all_option
@choosing
@click.option("--because", default="", metavar="TEXT", help="The reason, kept with the letter.")
@_dry_run_option
@_yes_option
@common
def drop_command(
    invocation: Invocation,
    places: Sequence[str],
    everything: bool,
    choice: Choice,
    because: str,
    dry_run: bool,
    yes: bool,
) -> ExitCode:
    """Mark the dead letters at PLACE as needing nothing more, or with --all those that filters choose.

    A log cannot lose a record in its middle, so a note is written beside each letter. Lists leave it out from then on,
    and --all does not choose it; `list --handled` and `show` still have it, until the retention of its topic removes
    it. To remove bytes for good, shorten that retention, or delete records with kafka-delete-records.

    \b
    Examples:
      afl-stream dlq drop 'afl.dlq.control[0]@17' --because "answered by hand"
      afl-stream dlq drop --all --reason AnswerExpired --until 7d
    """
    _check(places, everything, choice)
    terminal, wanted = invocation.terminal(), _Wanted(places, choice, False, dry_run, yes)
    done = _handled(invocation, wanted, "dropped", lambda letters, chosen: letters.drop(chosen, because))
    if done is None:
        return ExitCode.OK
    if terminal.as_json:
        rows = [{"place": str(each.letter.place), "noted": each.was_noted} for each in done]
        terminal.document({"dropped": rows})
        return ExitCode.OK
    for each in done:
        terminal.line(f"{each.letter.place}  {'dropped' if each.was_noted else 'was dropped before'}")
    count = sum(each.was_noted for each in done)
    terminal.remark(f"{_counted(count)} dropped; the records stay in the topic until its retention is over")
    return ExitCode.OK


def _check(places: Sequence[str], everything: bool, choice: Choice) -> None:
    if bool(places) == everything:
        raise click.UsageError("give the places of dead letters, or --all with filters")
    if places and choice.is_given:
        raise click.UsageError("filters go with --all")


class _Wanted(NamedTuple):
    """The letters of a call: at these places, or where there are none those that the filters choose."""

    places: Sequence[str]
    choice: Choice
    replayed: bool | None
    dry_run: bool
    is_confirmed: bool


def _handled(
    invocation: Invocation, wanted: _Wanted, verb: str, act: Callable[[DeadLetters, Sequence[str]], Sequence[T]]
) -> Sequence[T] | None:
    """Do it, and return what became of each letter; None: they were only shown."""
    from afl_stream.dead_letters import NoSuchLetter

    terminal, places = invocation.terminal(), wanted.places
    with opened_letters(invocation, invocation.settings()) as letters:
        chosen = wanted.choice.filter(replayed=wanted.replayed, dropped=False)
        if not wanted.places:
            places = [str(letter.place) for letter in letters.find(chosen)]
            if not places:
                remark_on_unmatched(invocation, letters, wanted.choice)
        try:
            if wanted.dry_run:
                _show_only(terminal, letters, places, verb)
                return None
            if not wanted.places:
                _confirm(terminal, len(places), verb, is_confirmed=wanted.is_confirmed)
            return act(letters, places)
        except NoSuchLetter as error:
            raise not_found(invocation, error) from error


def _show_only(terminal: Terminal, letters: DeadLetters, places: Sequence[str], verb: str) -> None:
    wanted = [letters.get(place) for place in dict.fromkeys(places)]
    if terminal.as_json:
        terminal.document({f"would_be_{verb}": [str(letter.place) for letter in wanted]})
        return
    if wanted:
        show_letters(terminal, letters, wanted)
    terminal.remark(f"{_counted(len(wanted))} would be {verb}; nothing was changed")


def _confirm(terminal: Terminal, count: int, verb: str, *, is_confirmed: bool) -> None:
    """Ask before many letters are handled; where nobody can be asked, --yes says so. Raises CommandRefused, Abort."""
    if count <= MANY or is_confirmed:
        return
    asked = f"{_counted(count)} will be {verb}"
    if terminal.as_json or not sys.stdin.isatty():
        raise CommandRefused(f"{asked}: look at them with --dry-run, then give --yes")
    click.confirm(f"{asked}. Continue?", abort=True, err=True)


def _counted(count: int) -> str:
    return f"{count:,} dead letter{'s' * (count != 1)}"
