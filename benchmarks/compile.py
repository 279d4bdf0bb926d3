"""The speed of compiling AFL: `python -m benchmarks.compile [--sizes N ...] [--pairs K]`.

The text is that of benchmarks.afl_corpus, N lines of it. Measured in CPU time, the collector paused on both sides as
the compiler does: from text to JSON text (parse, validate, emit, write), against Lark parsing the same text to its tree
by the same grammar, with Lark's own lexer. What neither pays for is making its parser. Then, each alternately with its
floor: `afl check` of a 200-line file in a process of its own, byte code present, against a process that
imports the command line library; and one evaluation of an expression against a Python function that computes the same.
Last, how often a program's expressions are compiled in two runs, the second of which has nothing left to compile.

The last line is one JSON object: `lines_per_s`, of the largest size, and `cpu_ratio`, its ratio to Lark; `growth`, how
CPU a line grows from the smallest size to the largest; `cold_check_s` and `cold_check_ratio`; `evaluation_ratio`; and
`compilations`, of the first and of the second run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO

import lark

from afl.compiled.program import CompiledProgram
from afl.compiler import collector_paused, compile_text
from afl.emitter import to_text
from afl.engine.expressions.expression import compile_expression
from afl.engine.types import Value
from afl.evaluation.evaluator import Evaluator
from afl.grammar import GRAMMAR_FILE, Lexer, load_table
from afl.grammar.lexer import RAW_BODY
from afl.stores.memory.store import MemoryStore
from benchmarks.afl_corpus import corpus
from benchmarks.measure import PairedSeconds, cpu_seconds, paired

#: Small texts are compiled repeatedly until they made this many lines, so that the clock's grain does not show.
_LEAST_LINES: Final = 10_000
_CHECKED_LINES: Final = 200
_EVALUATIONS: Final = 100_000

#: What our own lexer drops; Lark's has to be told.
_DROPPED: Final = r"""
%ignore /[ \t\f\r\n]+/
%ignore /\/\/[^\n]*/
%ignore /\/\*(?s:.*?)\*\//
"""

EXPRESSION: Final = '($.price * $.count - $.discount) % 7 < 5 && $.name ++ "-" ++ $.count != ""'
FRAME: Final[Mapping[str, Value]] = {"price": 12, "count": 3, "discount": 5, "name": "pear"}

#: Eight expressions: two each of arguments, yielded values and defaults, a condition, and what the foreach goes over.
_PROGRAM: Final = """
namespace benchmark {
    facet Twice(value: Long) => (value: Long = $.value * 2)

    facet EachTwice(values: [Long]) => (sum: [Long] = []) andThen foreach value in $.values {
        twice = Twice(value = $.value + 1)
        sys.assert(twice.value > 0)
        yield EachTwice(sum = [twice.value])
    }

    workflow Run(values: [Long]) => (sum: [Long]) andThen {
        each = EachTwice(values = $.values)
        yield Run(sum = each.sum)
    }
}
"""


class FrameReferences:
    """References to the members of a mapping."""

    def input_reference(self, path: tuple[str, ...]) -> Callable[[Mapping[str, Value]], Value]:
        (name,) = path
        return lambda frame: frame[name]

    def step_reference(self, path: tuple[str, ...]) -> Callable[[Mapping[str, Value]], Value]:
        raise NotImplementedError("the expression has no steps")


def same_in_python(frame: Mapping[str, Any]) -> bool:
    """Return what EXPRESSION says, as one would write it in Python."""
    return (frame["price"] * frame["count"] - frame["discount"]) % 7 < 5 and f"{frame['name']}-{frame['count']}" != ""


def expression_json(text: str) -> object:
    """Return the compiled JSON of an expression over the parameters that FRAME has."""
    params = ", ".join(f"{name}: Json" for name in FRAME)
    program = compile_text(f"namespace a {{ facet F({params}) => (value: Json = {text}) }}").program_json
    return program["declarations"][0]["declarations"][0]["returns"][0]["default"]


def end_to_end(text: str) -> str:
    """Compile a text all the way to JSON text. Raises CompileError."""
    with collector_paused():
        return to_text(compile_text(text).program_json, 2)


def lark_parser() -> lark.Lark:
    """Lark's parser for the grammar of AFL, all by itself."""
    grammar = GRAMMAR_FILE.read_text(encoding="utf-8") + _DROPPED
    return lark.Lark(grammar, start="program", parser="lalr", propagate_positions=True)


def without_raw_bodies(text: str) -> str:
    """Return the text with each script in braces as a string of as many lines: no Lark pattern finds its end."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    pieces: list[str] = []
    position = 0
    for token in Lexer(load_table()).tokens(text):
        if token.type == RAW_BODY:
            start = starts[token.line - 1] + token.column - 1
            code = token.text[1:-1].replace("\\", "/").replace('"', "'")
            pieces += [text[position:start], f'"{code}"']
            position = start + len(token.text)
    return "".join([*pieces, text[position:]])


def compare(lines: int, pairs: int, parser: lark.Lark) -> tuple[PairedSeconds, int]:
    """Measure ours and Lark on at least so many lines; return seconds for all, and how many lines they were."""
    text = corpus(lines)
    for_lark = without_raw_bodies(text)
    total = text.count("\n") + 1
    repeats = max(1, _LEAST_LINES // total)

    def parse(source: str) -> object:
        with collector_paused():
            return parser.parse(source)

    def mean(source: str, work: Callable[[str], object]) -> float:
        return sum(cpu_seconds(lambda: source, work) for _ in range(repeats)) / repeats

    return paired(lambda: mean(text, end_to_end), lambda: mean(for_lark, parse), pairs), total


def cold_check(pairs: int) -> PairedSeconds:
    """Measure `afl check` in a process of its own, and one that imports click and does nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "corpus.afl")
        file.write_text(corpus(_CHECKED_LINES), encoding="utf-8")
        # Byte code is found there, whatever this shell forbids; the first round writes it.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": folder}
        return paired(
            lambda: _process_cpu_s(["-m", "afl", "check", str(file)], environment),
            lambda: _process_cpu_s(["-c", "import click"], environment),
            pairs,
        )


def evaluation(pairs: int) -> PairedSeconds:
    """Measure evaluations of an expression that was compiled before, and of the function."""
    compiled = compile_expression(expression_json(EXPRESSION), FrameReferences())
    if compiled(FRAME) is not same_in_python(FRAME):
        raise RuntimeError(f"the expression gives {compiled(FRAME)}, Python {same_in_python(FRAME)}")

    def repeat(run: Callable[[Mapping[str, Value]], object]) -> None:
        for _ in range(_EVALUATIONS):
            run(FRAME)

    return paired(
        lambda: cpu_seconds(lambda: compiled, repeat) / _EVALUATIONS,
        lambda: cpu_seconds(lambda: same_in_python, repeat) / _EVALUATIONS,
        pairs,
    )


def compilations(elements: int) -> list[int]:
    """How many expressions are compiled in each of two runs of one program over so many elements."""
    program = CompiledProgram(compile_text(_PROGRAM).program_json)
    evaluator = Evaluator(MemoryStore())
    counts: list[int] = []

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is compile_expression.__code__:
            counts[-1] += 1

    for _ in range(2):
        counts.append(0)
        sys.setprofile(count)
        try:
            outputs = evaluator.execute(
                "benchmark.Run", inputs={"values": list(range(elements))}, program_ast=program
            ).outputs
        finally:
            sys.setprofile(None)
        expected = [2 * (value + 1) for value in range(elements)]
        if outputs != {"sum": expected}:
            raise RuntimeError(f"the workflow gives {outputs}")
    return counts


def figures(
    sizes: Mapping[int, PairedSeconds], check: PairedSeconds, evaluated: PairedSeconds, counts: Sequence[int]
) -> dict[str, object]:
    """Return the last line's figures; `sizes` by the number of lines, in seconds for all of them."""
    smallest, largest = min(sizes), max(sizes)
    grown = (sizes[largest].subject_s / largest) / (sizes[smallest].subject_s / smallest)
    return {
        "lines_per_s": round(largest / sizes[largest].subject_s),
        "cpu_ratio": round(sizes[largest].ratio, 2),
        "growth": round(grown, 2),
        "cold_check_s": round(check.subject_s, 3),
        "cold_check_ratio": round(check.ratio, 2),
        "evaluation_ratio": round(evaluated.ratio, 2),
        "compilations": list(counts),
    }


def main(arguments: Sequence[str], out: TextIO) -> None:
    """Measure every size and the rest, and write a line for each."""
    options_of = argparse.ArgumentParser(prog="python -m benchmarks.compile", description="how fast AFL is compiled")
    options_of.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], metavar="N")
    options_of.add_argument("--pairs", type=int, default=5, help="pairs of runs for each figure (default: 5)")
    options = options_of.parse_args(arguments)

    def say(line: str) -> None:
        out.write(line + "\n")
        out.flush()

    parser = lark_parser()
    sizes: dict[int, PairedSeconds] = {}
    for size in sorted(options.sizes):
        pair, lines = compare(size, options.pairs, parser)
        sizes[lines] = pair
        ours, larks = pair.subject_s / lines, pair.floor_s / lines
        say(
            f"{lines:>7,d} lines: {ours * 1e6:6.2f} us a line, {1 / ours:>7,.0f} lines/s to JSON text; "
            f"Lark to its tree {larks * 1e6:6.2f}, {1 / larks:>7,.0f}; ratio {pair.ratio:.2f}"
        )
    check = cold_check(max(options.pairs, 5))
    say(f"cold check of {_CHECKED_LINES} lines: {check.subject_s:.3f} s, importing click {check.floor_s:.3f} s")
    evaluated = evaluation(options.pairs)
    say(f"an evaluation: {evaluated.subject_s * 1e6:.2f} us, a function {evaluated.floor_s * 1e6:.2f} us")
    counts = compilations(100)
    say(f"expressions compiled: {counts[0]} in the first run, {counts[1]} in the second")
    say(json.dumps(figures(sizes, check, evaluated, counts)))


def _process_cpu_s(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """CPU seconds, user and system, of a Python process. Raises RuntimeError when it fails."""
    process = subprocess.Popen([sys.executable, *arguments], env=environment, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"python {' '.join(arguments)} ends with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout)
