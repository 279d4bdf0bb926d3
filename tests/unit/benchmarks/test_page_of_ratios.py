"""One page has the ratios of all benchmarks, and a ratio that got worse is named."""

from __future__ import annotations

import io
from pathlib import Path

from benchmarks.page import BENCHMARKS, Benchmark, Figure, figures_of, main, page, read_page

_PURGE = next(benchmark for benchmark in BENCHMARKS if benchmark.name == "purge")


def _figure(value: float, better: str = "less") -> Figure:
    return Figure(benchmark="loop", name="cpu_ratio", value=value, better=better)


def test_every_benchmark_of_the_page_is_a_program() -> None:
    folder = Path(__file__).parents[3] / "benchmarks"

    assert [b.name for b in BENCHMARKS if not (folder / f"{b.name}.py").exists()] == []


def test_a_page_is_read_as_it_was_written() -> None:
    figures = [_figure(2.75), Figure(benchmark="loop", name="rate_ratio", value=0.4, better="more")]

    found = read_page(page(figures, "two processors"))

    assert list(found.values()) == figures


def test_only_ratios_are_taken_also_those_by_name_inside_of_one() -> None:
    benchmark = Benchmark(name="b", tiny=(), less=r".*ratio.*", more=r"rate_ratio.*")
    printed = {"cpu_ratio": {"faust": 0.1, "quix": 1}, "rate_ratio": 0.5, "us": 3, "in_ratio": True, "ratio": "none"}

    found = {figure.name: (figure.value, figure.better) for figure in figures_of(benchmark, printed)}

    assert found == {"cpu_ratio_faust": (0.1, "less"), "cpu_ratio_quix": (1, "less"), "rate_ratio": (0.5, "more")}


def test_a_ratio_is_worse_beyond_fifteen_percent_in_its_own_direction() -> None:
    assert not _figure(1.14).is_worse_than(_figure(1.0))
    assert _figure(1.16).is_worse_than(_figure(1.0))
    assert not _figure(0.5).is_worse_than(_figure(1.0))
    assert not _figure(0.86, "more").is_worse_than(_figure(1.0, "more"))
    assert _figure(0.84, "more").is_worse_than(_figure(1.0, "more"))


def test_a_benchmark_is_run_and_written_and_the_others_keep_their_rows(tmp_path: Path) -> None:
    there, out = tmp_path / "benchmarks.md", io.StringIO()
    there.write_text(page([_figure(2.5)], "a machine of before", "## Searches\n\nBy hand.\n"))

    assert main(["purge", "--tiny", "--write", "--page", str(there)], out) == 0

    found = read_page(there.read_text())
    assert found["loop", "cpu_ratio"] == _figure(2.5)
    assert found["purge", "purge_ratio"].value > 0
    assert "a machine of before" not in there.read_text()
    assert there.read_text().endswith("## Searches\n\nBy hand.\n")


def test_a_ratio_that_got_worse_is_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    there, out = tmp_path / "benchmarks.md", io.StringIO()
    better = Figure(benchmark="purge", name="purge_ratio", value=0.001, better="less")
    there.write_text(page([better], "a machine"))
    quick = Benchmark(name="purge", tiny=(), less=_PURGE.less)

    assert main(["purge", "--page", str(there)], out, [quick], extra=_PURGE.tiny) == 1

    assert "worse by more than 15 %: purge purge_ratio 0.001 ->" in out.getvalue()


def test_a_benchmark_that_fails_is_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    out = io.StringIO()

    code = main(["purge", "--tiny", "--page", str(tmp_path / "none")], out, [Benchmark(name="purge", tiny=("--no",))])

    assert code == 2
    assert "purge: FAILED" in out.getvalue()
