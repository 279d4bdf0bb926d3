"""The command `list`: runs, chosen by what a person knows of them, in pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from afl.core.clock import epoch_ms
from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, described_store
from afl_stream.commands.runs.choosing import choosing, filter_of
from afl_stream.commands.runs.colours import colour_of
from afl_stream.commands.runs.words import no_runs_text
from afl_stream.commands.sensitive.shown import open_shown_store
from afl_stream.commands.terminal import Listed, Terminal, short_duration
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.visibility.workflows import WorkflowPage, WorkflowSummary

#: Runs of a page.
_LIMIT: Final = 20
#: The option of each part of a Choice.
_OPTIONS: Final = {
    "states": "--state",
    "workflows": "--workflow",
    "programs": "--program",
    "facets": "--facet",
    "since": "--since",
    "until": "--until",
    "error": "--error",
    "inputs": "--input",
}


@click.command("list")
@choosing
@click.option("--limit", type=click.IntRange(min=1), default=_LIMIT, show_default=True, help="Most runs of a page.")
@click.option("--after", metavar="ID", help="The page after this run; the command for the next page is shown.")
@common
def list_command(invocation: Invocation, limit: int, after: str | None, **given: Any) -> ExitCode:
    """List runs, newest first. Every option narrows the list; an option that is repeated widens it again.

    The columns are the id, the workflow, the state, how long ago it was started, and how long it took; below a failed
    run stands its first cause. To a file or a pipe each run is one line, its columns between tabs.

    \b
    Examples:
      afl-stream list --state failed --since 7d
      afl-stream list --workflow Checkout --input order=17
      afl-stream list --facet billing.Charge --error declined
      afl-stream list --json | jq '.workflows[].workflow_id'
    """
    from afl_stream.visibility.choosing import Choice, unknown_names
    from afl_stream.visibility.workflows import list_workflows

    config, terminal = invocation.settings(), invocation.terminal()
    now_ms = epoch_ms()
    with open_shown_store(config) as store:
        terminal.remark(described_store(config))
        wanted = filter_of(store, Choice(**given), now_ms)
        page = list_workflows(store, wanted, after=after, limit=limit, now_ms=now_ms)
        unknown = [] if page.workflows or terminal.as_json else unknown_names(store, Choice(**given))
        is_chosen = after is not None or any(map(_values, given.values()))
        none = "" if page.workflows or is_chosen else no_runs_text(invocation, store)
    if terminal.as_json:
        terminal.document(page.to_dict())
        return ExitCode.OK
    for line in unknown:
        terminal.remark(line)
    _show(terminal, page, now_ms, none or ("no such runs" if after is None else "no more runs"))
    if page.next_after is not None:
        words = [
            word for name, values in _OPTIONS.items() for value in _values(given[name]) for word in (values, value)
        ]
        more = ["--limit", str(limit)] if limit != _LIMIT else []
        terminal.remark(f"more: {invocation.command_line('list', *words, *more, '--after', page.next_after)}")
    return ExitCode.OK


def _values(given: object) -> list[str]:
    if isinstance(given, tuple):
        return [str(value) for value in given]
    return [str(given)] if given else []


def _show(terminal: Terminal, page: WorkflowPage, now_ms: int, none: str) -> None:
    """Write the lines of a page; of one without lines, `none`."""
    if not page.workflows:
        terminal.remark(none)
        return
    terminal.listing(
        ("workflow id", "workflow", "state", "age", "took"),
        [
            Listed(
                (
                    found.workflow_id,
                    found.workflow,
                    found.status,
                    short_duration(max(now_ms - found.created_at_ms, 0)),
                    short_duration(found.duration_ms),
                ),
                colour=colour_of(found.status),
                note=_note(found),
            )
            for found in page.workflows
        ],
        right=("age", "took"),
        whole=("workflow id",),
        coloured="state",
    )


def _note(found: WorkflowSummary) -> str:
    return "" if found.error is None else f"{found.error.type}: {found.error.message}"
