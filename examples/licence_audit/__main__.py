"""Runs the licence audit with all its parts in this process: `python -m examples.licence_audit`."""

import sys
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from afl.compiled import CompiledProgram
from afl.compiler import compile_files
from afl_stream.config import EmbeddedSettings, StreamConfig
from afl_stream.dev import LocalDeployment, Progress
from afl_stream.evaluator.runs import Ending
from afl_stream.service import tune_collector
from examples.licence_audit.presentation import progress_bar, totals_table

WORKFLOW = "licences.LicenceAudit"
HANDLERS = "examples.licence_audit.handlers"
FOLDER = Path(".afl") / "licence_audit"
#: Far more than the audit takes: an end for a demo that hangs.
_TIMEOUT_S = 120.0


def compiled() -> CompiledProgram:
    """Return the program of this folder."""
    return CompiledProgram(compile_files([Path(__file__).with_name("licence_audit.afl")]).program_json)


def main(console: Console, folder: Path = FOLDER) -> int:
    """Run the audit, show what it found, and return the exit code."""
    config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(folder)))
    program = compiled()
    audit_path = folder / "audit.jsonl"
    with LocalDeployment(
        config, handlers=[HANDLERS], audit_path=audit_path
    ) as deployment, progress_bar(console) as bar:  # fmt: skip
        tune_collector()
        deployment.deploy(program)
        deployment.run()
        task = bar.add_task(WORKFLOW, total=None)

        def on_progress(now: Progress) -> None:
            bar.update(task, completed=now.answered, total=now.asked or None)

        ending = deployment.wait(deployment.start(WORKFLOW, {}), timeout_s=_TIMEOUT_S, on_progress=on_progress)
        done = deployment.progress()
    outputs = _outputs_of(ending, console)
    if outputs is None:
        return 1
    console.print(totals_table(outputs["totals"]))
    rate = done.answered / done.elapsed_s
    console.print(f"{done.answered} events answered in {done.elapsed_s:.1f} s: {rate:.0f} events/s, work included.")
    console.print(f"Every record is in {audit_path}", soft_wrap=True)
    return 0


def _outputs_of(ending: Ending | None, console: Console) -> dict[str, Any] | None:
    """Return the outputs of the run; None, once the reason is printed, when it has none."""
    row = None if ending is None else ending.row
    if row is None:
        console.print(f"The audit has not ended within {_TIMEOUT_S:.0f} s")
    elif row.error is not None:
        console.print(f"The audit failed: {row.error.type}: {row.error.message}", markup=False)
    elif row.outputs is not None:
        return cast(dict[str, Any], dict(row.outputs))
    return None


if __name__ == "__main__":
    sys.exit(main(Console()))
