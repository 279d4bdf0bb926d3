"""The commands `programs list` and `programs show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation, described_store, open_store
from afl_stream.commands.terminal import Listed, Terminal, time_text
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.visibility.programs import Difference, ProgramVersion

#: Digits of a fingerprint that are shown, which are enough to name it by.
_SHORT: Final = 12


@click.group("programs")
def programs_group() -> None:
    """Show the programs that runs are made of, their versions, and what differs between those."""


@programs_group.command("list")
@common
def programs_list(invocation: Invocation) -> ExitCode:
    """List the programs that the store has, the last one that ran first: each with its workflows and its runs.

    A program that was deployed and never started is not in the store.

    \b
    Examples:
      afl-stream programs list
      afl-stream programs list --json | jq '.[] | select(.run_count == 0)'
    """
    from afl_stream.visibility.programs import list_programs

    config, terminal = invocation.settings(), invocation.terminal()
    with open_store(config) as store:
        terminal.remark(described_store(config))
        found = list_programs(store)
    if terminal.as_json:
        terminal.document([version.to_dict() for version in found])
        return ExitCode.OK
    if not found:
        terminal.remark("no programs yet; the first start brings one")
        return ExitCode.OK
    terminal.listing(
        ("program", "workflows", "runs", "last run"),
        [
            Listed(
                (
                    version.fingerprint[:_SHORT],
                    ", ".join(version.workflows or version.runs),
                    f"{version.run_count:,}",
                    time_text(version.last_run_ms or 0),
                ),
                note=version.unreadable or _statuses(version),
            )
            for version in found
        ],
        right=("runs",),
        whole=("program",),
    )
    return ExitCode.OK


@programs_group.command("show")
@click.argument("name", metavar="WORKFLOW|PROGRAM")
@common
def programs_show(invocation: Invocation, name: str) -> ExitCode:
    """Show the versions of a workflow in the order of their first runs, each with its runs, and what differs from the
    version before. Or one program, by the beginning of its id.

    \b
    Examples:
      afl-stream programs show Checkout
      afl-stream programs show fa3c867d9b54 --json
    """
    from afl_stream.visibility.programs import show_programs

    config, terminal = invocation.settings(), invocation.terminal()
    with open_store(config) as store:
        terminal.remark(described_store(config))
        found = show_programs(store, name)
    if terminal.as_json:
        terminal.document(found.to_dict())
        return ExitCode.OK
    for version, differences in zip(found.versions, [(), *found.differences], strict=True):
        _show_version(terminal, version)
        _show_differences(terminal, differences, is_first=version is found.versions[0])
    return ExitCode.OK


def _show_version(terminal: Terminal, version: ProgramVersion) -> None:
    terminal.line(f"program {version.fingerprint}")
    for workflow in version.workflows:
        terminal.line(f"  workflow {workflow}")
    if version.first_run_ms is None or version.last_run_ms is None:
        terminal.line("  no runs")
    else:
        terminal.line(f"  {version.run_count:,} runs: {_statuses(version)}")
        terminal.line(f"  from {time_text(version.first_run_ms)} to {time_text(version.last_run_ms)}")
    if version.unreadable:
        terminal.line(f"  cannot be read: {version.unreadable}")


def _show_differences(terminal: Terminal, differences: Sequence[Difference] | None, *, is_first: bool) -> None:
    if is_first:
        return
    if differences is None:
        terminal.line("  what differs is not known: one of both cannot be read")
        return
    if not differences:
        terminal.line("  nothing differs from the version before but names of the compiler's own")
    for found in differences:
        for text, colour in difference_lines(found):
            terminal.coloured((f"  {text}", colour))


#: Kinds of differences inside a body: their lines name the step.
_INSIDE: Final = frozenset({"step", "yield", "log", "assert", "foreach", "case", "script"})


def difference_lines(found: Difference) -> list[tuple[str, str]]:
    """Return the lines of a difference between two programs, each with its colour."""
    if found.kind in _INSIDE:
        what = f"{found.kind} {found.name}"
        lines = [(f"- {what}: {found.before}", "red"), (f"+ {what}: {found.after}", "green")]
        return lines[found.change == "added" : 2 - (found.change == "removed")]
    match found.change:
        case "added":
            return [(f"+ {found.after}", "green")]
        case "removed":
            return [(f"- {found.before}", "red")]
        case _ if found.part == "signature":
            return [(f"- {found.before}", "red"), (f"+ {found.after}", "green")]
        case _:
            return [(f"~ the body of {found.kind} {found.name} differs", "yellow")]


def _statuses(version: ProgramVersion) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in sorted(version.by_status().items()))
