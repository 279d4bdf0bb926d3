"""The command `dlq list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.dlq.choosing import Choice, choosing, letter_document, opened_letters, state_of
from afl_stream.commands.dlq.unmatched import remark_on_unmatched
from afl_stream.commands.terminal import Terminal, time_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.commands.invocation import Invocation
    from afl_stream.dead_letters import DeadLetter, DeadLetters


@click.command("list")
@choosing
@click.option("--handled", is_flag=True, help="Also those that were replayed or dropped.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Only so many, the newest.")
@common
def list_command(invocation: Invocation, choice: Choice, handled: bool, limit: int) -> ExitCode:
    """List the dead letters of the deployment that were neither replayed nor dropped, from the oldest to the newest.

    It reads the topics of dead letters, in no group; nothing is committed.

    \b
    Examples:
      afl-stream dlq list
      afl-stream dlq list --workflow order-17 --handled
      afl-stream dlq list --facet billing.Pay --since 2h
      afl-stream dlq list --json | jq '.dead_letters[] | .reason'
    """
    config, terminal = invocation.settings(), invocation.terminal()
    chosen = choice.filter()
    with opened_letters(invocation, config) as letters:
        found = letters.find(chosen)
        wanted = found if handled else [letter for letter in found if letter.is_open]
        shown = wanted[-limit:]
        if terminal.as_json:
            documents = [letter_document(letters, letter) for letter in shown]
            terminal.document({"dead_letters": documents, "count": len(wanted), "handled": len(found) - len(wanted)})
            return ExitCode.OK
        if shown:
            show_letters(terminal, letters, shown)
        elif not found:
            remark_on_unmatched(invocation, letters, choice)
    _remark(terminal, invocation, found, wanted, shown, is_chosen=choice.is_given)
    return ExitCode.OK


def show_letters(terminal: Terminal, letters: DeadLetters, shown: Sequence[DeadLetter]) -> None:
    """Write a table of letters."""
    rows = []
    for letter in shown:
        subject = letters.subject_of(letter)
        about = subject.step_id or subject.workflow_id or "-"
        what = subject.facet or subject.record_type
        rows.append(
            (str(letter.place), time_text(letter.at_ms), letter.reason, what, state_of(letter), about, letter.error)
        )
    # Without a state there is no such column on a screen.
    state = "state" if any(row[4] for row in rows) else ""
    terminal.table(
        ("dead letter", "given up", "reason", "record", state, "step or run", ""),
        rows,
        whole=("dead letter", "step or run"),
    )


def _remark(
    terminal: Terminal,
    invocation: Invocation,
    found: Sequence[DeadLetter],
    wanted: Sequence[DeadLetter],
    shown: Sequence[DeadLetter],
    *,
    is_chosen: bool,
) -> None:
    """Say what the table leaves out, and the next command."""
    if len(shown) < len(wanted):
        terminal.remark(f"the newest {len(shown):,} of {len(wanted):,}; --limit shows more")
    handled = len(found) - len(wanted)
    more = f"; {handled:,} that were replayed or dropped are shown by --handled" if handled else ""
    if not wanted:
        terminal.remark(f"no dead letters{' that fit' if is_chosen else ''}{more}")
        return
    look = invocation.command_line("dlq", "show", str(shown[-1].place))
    terminal.remark(f"{len(wanted):,} dead letter{'s' * (len(wanted) != 1)}{more}")
    terminal.remark(f"one with its record: {look}")
