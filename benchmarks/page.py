"""All benchmarks in one run, and one page of their ratios: `python -m benchmarks.page [NAME ...] [--tiny] [--write]`.

Each benchmark is a process of its own, whose last line is one JSON object. The numbers that are ratios are compared
with those of the page in the repository (`docs/benchmarks.md`): one that is worse by more than 15 % is named, and the
exit code is 1; it is 2 when a benchmark failed. `--write` writes the page; benchmarks that were not run keep their
rows. `--tiny` runs the smallest sizes, for a look whether the programs work: its ratios mean nothing, and are not
compared.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "benchmarks.md"
#: A ratio that is worse by more than this share is named.
TOLERANCE: Final = 0.15
_TIMEOUT_S: Final = 3_600.0
_ROW: Final = re.compile(r"^\| `(?P<name>\w+)` \| `(?P<figure>[^`]+)` \| (?P<value>[\d.]+) \| (?P<better>less|more) \|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A program of `benchmarks/`, the options of its smallest run, and which of its figures are ratios."""

    name: str
    tiny: Sequence[str]
    #: Names of figures of which less is better, as patterns.
    less: str = r".*ratio.*"
    #: And those of which more is better.
    more: str = r"$^"

    def better(self, figure: str) -> str | None:
        """Return `less` or `more`, whichever of a ratio is better; None for a figure that is no ratio."""
        if re.fullmatch(self.more, figure):
            return "more"
        return "less" if re.fullmatch(self.less, figure) else None


#: In the order of the page.
BENCHMARKS: Final = (
    Benchmark(
        name="loop",
        tiny=("--workflows", "4", "--steps", "2", "--single-steps", "4", "--pairs", "1"),
        more=r"round_trips_ratio",
    ),
    Benchmark(name="evaluator", tiny=("--sizes", "10,20", "--pairs", "1"), less=r"cpu_ratio|growth"),
    Benchmark(name="durable_steps", tiny=("--steps", "5", "--pairs", "1"), less=r"cpu_ratio"),
    Benchmark(name="cold_answers", tiny=("--steps", "3", "--workflows", "2", "--pairs", "1"), less=r"cold_ratio.*"),
    Benchmark(name="purge", tiny=("--runs", "20", "--pairs", "1"), less=r"purge_ratio"),
    Benchmark(
        name="telemetry",
        tiny=("--steps", "20", "--pairs", "1", "--least-steps", "20", "--workflows", "2"),
        less=r".*",
    ),
    Benchmark(name="scale", tiny=("--steps", "40,80", "--runs", "20"), less=r".*growth"),
    Benchmark(name="dashboard", tiny=("--runs", "50", "--steps", "20", "--rounds", "1"), less=r"worst_s|ratio\..*"),
    Benchmark(name="visibility", tiny=("--runs", "200", "--rounds", "1"), less=r".*worst_s"),
    Benchmark(name="start_up", tiny=("--runs", "20", "--rounds", "1"), less=r".*_s"),
    Benchmark(name="sqlite_store", tiny=("--rows", "50", "--pairs", "1")),
    Benchmark(name="agent_drain", tiny=("--records", "50", "--rounds", "1"), more=r"rate_ratio.*"),
    Benchmark(name="compile", tiny=("--sizes", "20,40", "--pairs", "1"), less=r".*ratio|growth"),
    Benchmark(
        name="engine_calls",
        tiny=(
            "--rounds",
            "1",
        ),
        less=r".*ratio|.*growth",
    ),
    Benchmark(name="external_events", tiny=("--pairs", "5", "--events", "0"), less=r"p50_ratio|cpu_growth"),
    Benchmark(name="fan_out", tiny=("--sizes", "10,20"), less=r"growth"),
    Benchmark(name="timers", tiny=("--sleepers", "20", "--due", "10", "--idle-s", "1"), less=r"idle_ratio"),
    Benchmark(name="event_stores", tiny=("--groups", "1", "--rounds", "1"), less=r".*ratio"),
    Benchmark(name="pubsub_in_process", tiny=("--events", "50", "--pairs", "1", "--memory-events", "50")),
    Benchmark(name="pubsub_subscriptions", tiny=("--events", "50", "--pairs", "1")),
    Benchmark(name="pubsub_hosting", tiny=("--requests", "5", "--pairs", "1")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A ratio of a benchmark."""

    benchmark: str
    name: str
    value: float
    better: str

    def is_worse_than(self, before: "Figure") -> bool:
        """Say whether it is worse than the one before by more than the tolerance."""
        if self.better == "more":
            return self.value < before.value * (1 - TOLERANCE)
        return self.value > before.value * (1 + TOLERANCE)


def run(benchmark: Benchmark, options: Sequence[str]) -> list[Figure]:
    """Run a benchmark; return its ratios. Raises RuntimeError when it fails or prints no figures."""
    command = [sys.executable, "-m", f"benchmarks.{benchmark.name}", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"{' '.join(command[1:])} ended with {done.returncode}: {done.stderr.strip()[-2_000:]}")
    try:
        found = json.loads(lines[-1])
    except ValueError as error:
        raise RuntimeError(f"{benchmark.name}: its last line is no JSON object: {lines[-1]:.200}") from error
    return figures_of(benchmark, found)


def figures_of(benchmark: Benchmark, found: Mapping[str, object], within: str = "") -> list[Figure]:
    """Return the ratios among the numbers that a benchmark has printed, also those by name inside of one."""
    figures = []
    for key, value in found.items():
        name = f"{within}{key}"
        if isinstance(value, Mapping):
            figures += figures_of(benchmark, value, f"{name}_")
            continue
        better = benchmark.better(name)
        if better is not None and isinstance(value, int | float) and not isinstance(value, bool):
            figures.append(Figure(benchmark=benchmark.name, name=name, value=float(value), better=better))
    return figures


def read_page(text: str) -> dict[tuple[str, str], Figure]:
    """Return the ratios of a page, by benchmark and name."""
    found = {}
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is not None:
            figure = Figure(benchmark=row["name"], name=row["figure"], value=float(row["value"]), better=row["better"])
            found[figure.benchmark, figure.name] = figure
    return found


def page(figures: Sequence[Figure], machine: str, kept: str = "") -> str:
    """Return the page. `kept` are its further sections, which people write."""
    rows = [f"| `{f.benchmark}` | `{f.name}` | {f.value:g} | {f.better} |" for f in figures]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "`make bench` runs all of `benchmarks/` and writes this page. Each figure is a ratio against a baseline",
            "that the program names at its head, measured in the same run, so that it says something elsewhere, too.",
            "A ratio that gets worse by more than 15 % is named by the next run, which then ends with 1.",
            "",
            f"Measured on: {machine}.",
            "",
            "| benchmark | ratio | value | better is |",
            "|---|---|---|---|",
            *rows,
            "",
            kept,
        ]
    )


def sections(text: str) -> str:
    """Return the sections of a page behind its ratios."""
    _, heading, rest = text.partition("\n## ")
    return f"## {rest}" if heading else ""


def this_machine() -> str:
    """Return what the figures were measured on."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{os.cpu_count()} processors ({model}), {platform.system()}, Python {platform.python_version()}"


def main(
    arguments: Sequence[str], out: TextIO, benchmarks: Sequence[Benchmark] = BENCHMARKS, extra: Sequence[str] = ()
) -> int:
    """Run, compare and write; return the exit code. `extra` goes to each benchmark."""
    names = [benchmark.name for benchmark in benchmarks]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description="run all benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes, compared with nothing")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page (default: docs/benchmarks.md)")
    options = parser.parse_args(arguments)
    unknown = set(options.names).difference(names)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    text = options.page.read_text(encoding="utf-8") if options.page.exists() else ""
    before = read_page(text)
    after = dict(before)
    failed, worse = [], []
    for benchmark in benchmarks:
        if options.names and benchmark.name not in options.names:
            continue
        try:
            figures = run(benchmark, benchmark.tiny if options.tiny else extra)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed.append(benchmark.name)
            out.write(f"{benchmark.name}: FAILED: {error}\n")
            continue
        for figure in figures:
            known = before.get((figure.benchmark, figure.name))
            note = "" if known is None else f", was {known.value:g}"
            if known is not None and not options.tiny and figure.is_worse_than(known):
                worse.append(figure)
                note += ": WORSE"
            after[figure.benchmark, figure.name] = figure
            out.write(f"{figure.benchmark:14s} {figure.name:32s} {figure.value:8.3g}{note}\n")
            out.flush()
    if options.write:
        order = {name: at for at, name in enumerate(names)}
        listed = sorted(after.values(), key=lambda figure: order.get(figure.benchmark, len(order)))
        options.page.write_text(page(listed, this_machine(), sections(text)), encoding="utf-8")
    for figure in worse:
        known = before[figure.benchmark, figure.name]
        out.write(f"worse by more than 15 %: {figure.benchmark} {figure.name} {known.value:g} -> {figure.value:g}\n")
    return 2 if failed else 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
