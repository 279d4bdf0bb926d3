"""Runs one purchase with all its parts in this process, and the form beside it: `python -m examples.approval`."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from afl.compiled import CompiledProgram
from afl.compiler import compile_files
from afl_stream.config import EmbeddedSettings, StreamConfig
from afl_stream.dev import LocalDeployment
from afl_stream.errors import StreamError
from afl_stream.transport import TransportError
from examples.approval.answering import PORT, answer_by
from examples.approval.form import FormServer

WORKFLOW = "approval.Purchase"
HANDLERS = "examples.approval.handlers"
FOLDER = Path(".afl") / "approval"
#: How soon the end of the run is noticed between two visits of the form.
_LOOK_INTERVAL_S = 0.2
#: A wait of three such days is shorter than the longest that there is.
_LONGEST_DAY_S = 1e9
_ENDED = ("COMPLETED", "ERROR", "CANCELLED")


def compiled() -> CompiledProgram:
    """Return the program of this folder."""
    return CompiledProgram(compile_files([Path(__file__).with_name("approval.afl")]).program_json)


def main(arguments: Sequence[str], out: TextIO, folder: Path = FOLDER) -> int:
    """Start a purchase, serve the form until somebody has answered or nobody has in time; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.approval", description="a purchase that needs a yes")
    parser.add_argument("--day-s", type=float, default=86_400.0, help="how long a day is, in seconds (default: 86400)")
    parser.add_argument("--port", type=int, default=PORT, help=f"of the form, on this machine (default: {PORT})")
    given = parser.parse_args(arguments)
    day_ms = int(given.day_s * 1000) if abs(given.day_s) < _LONGEST_DAY_S else 0
    if day_ms < 1:
        parser.error(f"--day-s {given.day_s:g}: expected 0.001 or more, and less than {_LONGEST_DAY_S:g}")
    try:
        return _purchase(day_ms, given.port, out, folder)
    except (StreamError, TransportError) as error:
        parser.exit(3, f"Error: {error}\n")
    except KeyboardInterrupt:
        out.write(f"\ninterrupted; the purchase is kept in {folder}\n")
        return 130


def _purchase(day_ms: int, port: int, out: TextIO, folder: Path) -> int:
    inputs = {"item": "a standing desk", "euros": 480, "day_ms": day_ms}
    with LocalDeployment(
        StreamConfig(embedded=EmbeddedSettings(data_dir=str(folder))), handlers=[HANDLERS]
    ) as deployment, FormServer(answer_by(deployment.client), port) as form:  # fmt: skip
        deployment.deploy(compiled())
        deployment.run()
        request = deployment.start(WORKFLOW, inputs)
        out.write(f"Answer at {form.url}/requests/{request}\n")
        out.flush()
        form.timeout = _LOOK_INTERVAL_S
        row = deployment.store.load_workflow(request)
        while row is None or row.status not in _ENDED:
            form.handle_request()
            deployment.check()
            row = deployment.store.load_workflow(request)
    if row.outputs is None:
        out.write(f"The purchase has no verdict: {row.status}{f', {row.error.message}' if row.error else ''}\n")
        return 1
    answer = row.outputs["answer"]
    shown = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    out.write(f"{row.outputs['verdict']}, after {row.outputs['asked']} of 3 messages: {shown}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
