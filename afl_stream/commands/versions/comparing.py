"""`deploy --compare`: what differs between a program and what is deployed, and which runs stay on other versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from afl_stream.commands.invocation import Invocation, open_transport, store_here
from afl_stream.commands.runs.programs import difference_lines
from afl_stream.commands.runs.short_ids import short_id
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl.stores.public.persistence import EngineStore
    from afl_stream.client.client import Client
    from afl_stream.visibility.programs import Difference
    from afl_stream.visibility.staying_runs import StayingRuns

#: Digits of a fingerprint that are shown, which are enough to name it by.
_SHORT: Final = 12
#: Runs that are named for each version; JSON names more.
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedVersion:
    """A deployed program, the workflows that it is deployed for, and what differs from it."""

    program: str
    workflows: Sequence[str]
    differences: Sequence[Difference]
    steps: Sequence[Difference]

    def is_told(self, found: Difference) -> bool:
        """Return whether a difference says more than those of the steps do."""
        inside = f"{found.name}."
        return found.part != "body" or not any(f"{step.name}.".startswith(inside) for step in self.steps)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "program": self.program,
            "workflows": list(self.workflows),
            "differences": [found.to_dict() for found in self.differences],
            "steps": [found.to_dict() for found in self.steps],
        }


def compare_with_deployed(invocation: Invocation, program: CompiledProgram, files: Sequence[str]) -> ExitCode:
    """Say what would be deployed anew. Nothing is changed; WORK_LEFT means that something differs."""
    from afl_stream.client.client import Client
    from afl_stream.visibility.staying_runs import staying_runs

    config, terminal = invocation.settings(), invocation.terminal()
    workflows = [workflow.qualified_name for workflow in program.workflows()]
    shown: dict[str, str] = {}
    staying: list[StayingRuns] | None = None
    remedy = invocation.with_files("topics", "apply", *files)
    with open_transport(config, remedy=remedy) as transport, Client(config, transport) as client:
        is_there = client.topology.definitions() in transport.admin().topic_names()
        names = client.definitions.workflows() if is_there else {}
        versions = list(_deployed(client, program, {name: names[name] for name in workflows if name in names}))
        new = [name for name in workflows if name not in names]
        with store_here(config, transport) as store:
            if store is not None:
                staying = staying_runs(store, program, workflows)
                shown = _short_ids(store, staying)
    is_same = not new and not any(version.differences or version.steps for version in versions)
    if terminal.as_json:
        document: dict[str, Any] = {
            "program": program.fingerprint,
            "is_same": is_same,
            "new_workflows": new,
            "deployed": [version.to_dict() for version in versions],
            "staying": None if staying is None else [runs.to_dict() for runs in staying],
        }
        terminal.document(document)
    else:
        _show(invocation, program, new, versions)
        _show_staying(invocation, staying, shown)
    return ExitCode.OK if is_same else ExitCode.WORK_LEFT


def _deployed(client: Client, program: CompiledProgram, names: dict[str, str]) -> Iterator[DeployedVersion]:
    """Yield the deployed programs of these workflows, each compared with the program."""
    from afl_stream.visibility.programs import compare
    from afl_stream.visibility.step_changes import compare_steps

    for fingerprint in sorted(set(names.values())):
        found, _ = client.definitions.find("", fingerprint)
        is_same = found.behaviour == program.behaviour
        yield DeployedVersion(
            program=fingerprint,
            workflows=[name for name, of in names.items() if of == fingerprint],
            differences=() if is_same else compare(found, program),
            steps=() if is_same else compare_steps(found, program),
        )


def _short_ids(store: EngineStore, staying: Sequence[StayingRuns]) -> dict[str, str]:
    return {run: short_id(store, run) for runs in staying for run in runs.runs[:_MOST_NAMED]}


def _show(
    invocation: Invocation, program: CompiledProgram, new: Sequence[str], versions: Sequence[DeployedVersion]
) -> None:
    terminal = invocation.terminal()
    terminal.line(f"program {program.fingerprint[:_SHORT]}, which is not deployed by this command")
    for name in new:
        terminal.line(f"  workflow {name} is not deployed yet")
    for version in versions:
        is_same = not version.differences and not version.steps
        of = f"of {', '.join(version.workflows)}"
        terminal.line(f"{'the same as' if is_same else 'differs from'} {version.program[:_SHORT]} {of}")
        for found in (*filter(version.is_told, version.differences), *version.steps):
            for text, colour in difference_lines(found):
                terminal.coloured((f"  {text}", colour))


def _show_staying(invocation: Invocation, staying: Sequence[StayingRuns] | None, shown: dict[str, str]) -> None:
    terminal = invocation.terminal()
    if staying is None:
        terminal.remark("no store here: runs that are under way were not looked at")
        return
    for runs in staying:
        under_way = f", {runs.running:,} running" if runs.running else ""
        stay = "1 run stays" if runs.count == 1 else f"{runs.count:,} runs stay"
        terminal.line(f"{stay} on {runs.program[:_SHORT]} of {runs.workflow}: {runs.waiting:,} waiting{under_way}")
        named = ", ".join(shown[run] for run in runs.runs[:_MOST_NAMED])
        more = f" and {runs.count - _MOST_NAMED:,} more" if runs.count > _MOST_NAMED else ""
        terminal.line(f"  {named}{more}")
    if staying:
        move = invocation.command_line("migrate", "RUN", "--to", "current", "--check")
        terminal.remark(f"once it is deployed, whether one of them can move is said by: {move}")
    else:
        terminal.remark("no run that is under way stays on another version")
