"""The compiler's benchmark: its text is a program, its floor reads the same, and its figures are right."""

from pathlib import Path

import pytest

from afl.compiler import compile_text
from afl.engine.expressions.expression import compile_expression
from afl.parser import parse
from benchmarks.afl_corpus import corpus, programs, renamed
from benchmarks.compile import (
    EXPRESSION,
    FRAME,
    FrameReferences,
    compilations,
    expression_json,
    figures,
    lark_parser,
    same_in_python,
    without_raw_bodies,
)
from benchmarks.measure import PairedSeconds
from tests.worlds.compiled import interpreted_only


def test_the_corpus_is_one_program_of_as_many_lines_as_asked_for() -> None:
    text = corpus(2_000)

    assert 2_000 <= text.count("\n") + 1 < 2_100
    assert not any(finding.is_error for finding in compile_text(text).diagnostics)


def test_a_program_of_the_corpus_is_renamed_where_its_namespaces_are_named_and_nowhere_else() -> None:
    text = (
        "namespace shop.prices { facet Net() => (shop: Int) }\n"
        "namespace shop { use shop.prices\n"
        "facet F(shop: Int) andThen { shop = shop.prices.Net(); t = shop.G(x = $.shop + shop.shop) } }"
    )

    assert renamed(text, "_7") == (
        "namespace shop.prices_7 { facet Net() => (shop: Int) }\n"
        "namespace shop_7 { use shop.prices_7\n"
        "facet F(shop: Int) andThen { shop = shop.prices_7.Net(); t = shop_7.G(x = $.shop + shop.shop) } }"
    )


def test_programs_are_those_of_examples_and_documents_that_compile_beside_others(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "docs" / "language").mkdir(parents=True)
    example, shown = "namespace a { facet F() }\n", "namespace b { facet G() }\n"
    alone = "namespace c { facet H() }\nnamespace d { facet I() andThen { s = H() } }\n"
    wrong = "namespace e { facet F(x: Nothing) }\n"
    (tmp_path / "examples" / "one.afl").write_text(example)
    (tmp_path / "README.md").write_text(f"# A\n```afl\n{shown}```\n```afl error=REF_UNKNOWN_TYPE\n{wrong}```\n")
    (tmp_path / "docs" / "language" / "page.md").write_text(f"```afl\n{alone}```\n```sh\nls\n```\n")

    assert programs(tmp_path) == [example, shown]


def test_lark_reads_the_corpus_once_its_scripts_are_strings() -> None:
    text = 'namespace a { facet F() script { x = "}" }\n facet G() andThen script {\n y = "\\n" } }'
    for_lark = without_raw_bodies(text)

    assert for_lark == "namespace a { facet F() script \" x = '}' \"\n facet G() andThen script \"\n y = '/n' \" }"
    assert [item.sig.name for item in parse(for_lark).namespaces[0].facets] == ["F", "G"]
    assert lark_parser().parse(without_raw_bodies(corpus(700))).data == "program"


def test_the_expression_and_the_function_say_the_same() -> None:
    compiled = compile_expression(expression_json(EXPRESSION), FrameReferences())

    # (12 * 3 - 5) % 7 is 3, (12 * 3 - 3) % 7 is 5.
    for discount, value in ((5, True), (3, False)):
        frame = {**FRAME, "discount": discount}
        assert compiled(frame) is same_in_python(frame) is value


@interpreted_only
@pytest.mark.parametrize("elements", [1, 20])
def test_a_program_is_compiled_once_however_often_its_expressions_are_evaluated(elements: int) -> None:
    assert compilations(elements) == [8, 0]


def test_the_figures_are_medians_by_line() -> None:
    sizes = {
        1_000: PairedSeconds(subject=[0.02, 0.04, 0.09], floor=[0.08, 0.08, 0.08]),
        10_000: PairedSeconds(subject=[0.5, 0.6, 0.4], floor=[1.0, 1.0, 1.0]),
    }
    check = PairedSeconds(subject=[0.15, 0.15, 0.16], floor=[0.05, 0.06, 0.04])
    evaluated = PairedSeconds(subject=[2e-6], floor=[5e-7])

    # 0.5 s for 10,000 lines are 50 us a line, 0.04 s for 1,000 are 40.
    assert figures(sizes, check, evaluated, [8, 0]) == {
        "lines_per_s": 20_000,
        "cpu_ratio": 0.5,
        "growth": 1.25,
        "cold_check_s": 0.15,
        "cold_check_ratio": 3.0,
        "evaluation_ratio": 4.0,
        "compilations": [8, 0],
    }
