"""A local run costs by what happens in it: an event of a long run as much as one of a short run."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from afl.commands.local_run import Answers, run_locally
from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text


def chain(events: int) -> CompiledProgram:
    """Return a program whose events wait for one another: each answer is a round of its own."""
    steps = "\n".join(f"s{i} = Ask(x = {f's{i - 1}.y' if i else '1'})" for i in range(events))
    return CompiledProgram(
        compile_text(
            "namespace n { event facet Ask(x: Long) => (y: Long)\n"
            f"workflow W() => (r: Long) andThen {{\n{steps}\nyield W(r = s{events - 1}.y)\n}} }}"
        ).program_json
    )


def instructions(work: Callable[[], object]) -> int:
    """Return how many instructions of Python the work takes, whatever else the machine does."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.skipif(sys.gettrace() is not None, reason="something else traces this process, coverage for instance")
def test_an_event_of_a_long_run_takes_as_many_instructions_as_one_of_a_short_run() -> None:
    def an_event(events: int) -> float:
        program = chain(events)
        answers = Answers({"Ask": {"y": 1}}, program)

        def run() -> None:
            assert run_locally(program, "n.W", {}, answers).outputs == {"r": 1}

        run()  # What is made once for a program is made.
        return instructions(run) / events

    short, long = an_event(50), an_event(300)

    assert long <= 1.05 * short
