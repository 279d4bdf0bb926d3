"""The file and line of a reported failure: by the locations that a compiled program has."""

from pathlib import Path

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_files, compile_text
from afl.output.source_places import SourcePlace, find_place, lines_at, source_text

TEXT = """namespace shop {
    event facet Pay(n: Int) => (r: Int)
    facet Bill(n: Int) => (sum: Int = 0) andThen {
        paid = Pay(n = $.n)
        sys.assert(paid.r > 0)
        yield Bill(sum = paid.r)
    }
    workflow Sell(ns: [Int]) => (sum: Int = 0) andThen foreach n in $.ns {
        a = Pay(n = 1) b = Bill(n = $.n)
    } catch { c = Pay(n = 2) }
}
"""


@pytest.fixture
def program(tmp_path: Path) -> CompiledProgram:
    (tmp_path / "shop.afl").write_text(TEXT)
    (tmp_path / "other.afl").write_text("namespace other {\n    facet Else()\n}\n")
    files = [tmp_path / "shop.afl", tmp_path / "other.afl"]
    return CompiledProgram(compile_files(files, include_sources=True).program_json)


@pytest.mark.parametrize(
    ("path", "facet", "line", "column"),
    [
        ("shop.Sell[3].b.paid", "shop.Pay", 4, 9),
        ("shop.Sell[0].b", "shop.Bill", 9, 24),
        ("shop.Sell[0].a", "shop.Pay", 9, 9),
        ("shop.Sell.catch.c", "shop.Pay", 10, 15),
        ("shop.Sell[0].b.sys.assert-1", "sys.assert", 5, 9),
        ("shop.Sell[0].b.yield", "shop.Bill", 6, 9),
        ("shop.Sell", "", 8, 5),
    ],
)
def test_a_place_is_found_by_path_facet_and_line(
    path: str, facet: str, line: int, column: int, program: CompiledProgram, tmp_path: Path
) -> None:
    place = find_place(program, path, facet, line)

    assert str(place) == f"{tmp_path}/shop.afl:{line}:{column}"


@pytest.mark.parametrize("line", [0, 1, 99])
def test_a_line_that_nothing_of_a_declaration_begins_on_has_no_place(line: int, program: CompiledProgram) -> None:
    assert find_place(program, "shop.Sell", "", line) is None


def test_the_like_on_the_same_line_of_two_files_is_not_guessed(tmp_path: Path) -> None:
    for name in "ab":
        text = f"namespace {name} {{\n event facet G()\n facet F() andThen {{\n  s = G()\n }}\n}}"
        (tmp_path / f"{name}.afl").write_text(text)
    files = [tmp_path / "a.afl", tmp_path / "b.afl"]
    program = CompiledProgram(compile_files(files, include_sources=True).program_json)

    assert find_place(program, "w.W.x.s", "a.G", 4) is None


def test_a_program_that_does_not_name_its_sources_has_lines_alone() -> None:
    program = CompiledProgram(compile_text(TEXT, "shop.afl").program_json)

    assert str(find_place(program, "shop.Sell.catch.c", "shop.Pay", 10)) == "line 10"


def test_a_program_names_its_sources_only_where_it_is_told_to() -> None:
    assert "sourceId" not in str(compile_text(TEXT, "shop.afl").program_json)


def test_the_line_is_shown_from_the_file_as_long_as_it_is_the_same(program: CompiledProgram, tmp_path: Path) -> None:
    place = find_place(program, "shop.Sell.catch.c", "shop.Pay", 10)
    assert place is not None

    assert lines_at(place, source_text(place)) == ["  10 |     } catch { c = Pay(n = 2) }", "     |               ^"]
    (tmp_path / "shop.afl").write_text("// new\n" + TEXT)
    assert lines_at(place, source_text(place)) == []
    (tmp_path / "shop.afl").unlink()
    assert lines_at(place, source_text(place)) == []


def test_a_source_that_is_no_file_has_no_text_at_hand() -> None:
    assert source_text(SourcePlace("mongodb://flow/name", 1, 1, 2)) is None
