"""Which parameters of a program are sensitive: the marked ones, and all that get their values."""

from __future__ import annotations

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiled.sensitive import NO_MARKS, sensitive_marks
from afl.compiler import compile_text
from afl.core.sensitive import SensitivePatterns


def marks_of(body: str, *patterns: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the marks of a program of namespace `a`, by short names."""
    program = CompiledProgram(compile_text(f"namespace a {{\n{body}\n}}").program_json)
    marks = sensitive_marks(program, SensitivePatterns(patterns))
    return _short(marks.params), _short(marks.returns)


def _short(kind: dict[str, set[str]]) -> dict[str, set[str]]:
    return {name.removeprefix("a."): names for name, names in kind.items()}


EVENT = "event facet E(x: String, y: Long = 0) => (r: String)\n"


@pytest.mark.parametrize(
    ("body", "params", "returns"),
    [
        ("/** @sensitive x */ workflow W(x: String) andThen { e = E(x = $.x) }", {"W": {"x"}, "E": {"x"}}, {}),
        ('/** @sensitive x */ workflow W(x: String) andThen { e = E(x = "a" ++ $.x) }', {"W": {"x"}, "E": {"x"}}, {}),
        ("/** @sensitive x */ workflow W(x: String, z: String) andThen { e = E(x = $.z) }", {"W": {"x"}}, {}),
        (
            "/** @sensitive x */ workflow W(x: String) => (o: String) andThen { e = E(x = $.x) yield W(o = $.x) }",
            {"W": {"x"}, "E": {"x"}},
            {"W": {"o"}},
        ),
        (
            "/** @sensitive x */ workflow W(x: String) => (o: String) andThen { e = E(x = $.x) yield W(o = e.r) }",
            {"W": {"x"}, "E": {"x"}},
            {},
        ),
        (
            "/** @sensitive xs */ workflow W(xs: [String]) andThen foreach v in $.xs { e = E(x = $.v) }",
            {"W": {"xs"}, "E": {"x"}},
            {},
        ),
        (
            "facet G(g: String) => (h: String) andThen { yield G(h = $.g) }\n"
            "/** @sensitive x */ workflow W(x: String) andThen { g = G(g = $.x) e = E(x = g.h) }",
            {"W": {"x"}, "G": {"g"}, "E": {"x"}},
            {"G": {"h"}},
        ),
        (
            "/** @sensitive n */ schema S { n: String }\nevent facet T(s: [S])\n"
            "workflow W(s: S) andThen { t = T(s = [$.s]) }",
            {"S": {"n"}, "T": {"s"}, "W": {"s"}},
            {},
        ),
        (
            '/** @sensitive x */ workflow W(x: String) andThen { e = E(x = "k") andThen { f = E(x = $.x) } }',
            {"W": {"x"}, "E": {"x"}},
            {},
        ),
    ],
)
def test_marks_follow_the_value(body: str, params: dict[str, set[str]], returns: dict[str, set[str]]) -> None:
    assert marks_of(EVENT + body) == (params, returns)


def test_an_agents_return_is_sensitive_where_it_is_marked_and_goes_on() -> None:
    body = (
        "/** @sensitive r */ event facet Q() => (r: String)\n"
        "workflow W() => (o: String) andThen { q = Q() e = E(x = q.r) yield W(o = q.r) }"
    )

    assert marks_of(EVENT + body) == ({"E": {"x"}}, {"Q": {"r"}, "W": {"o"}})


def test_patterns_mark_and_their_marks_follow_too() -> None:
    body = EVENT + "workflow W(x: String) => (o: String) andThen { e = E(x = $.x) yield W(o = $.x) }"

    assert marks_of(body, "a.W.x") == ({"W": {"x"}, "E": {"x"}}, {"W": {"o"}})
    assert marks_of(body) == ({}, {})


def test_a_program_without_marks_has_the_text_that_it_always_had() -> None:
    plain = "namespace a {\n/** Says. @param x it */\nevent facet E(x: String)\n}"
    program = CompiledProgram(compile_text(plain).program_json)

    assert b"sensitive" not in program.text
    assert sensitive_marks(program) is NO_MARKS


def test_a_mark_is_part_of_what_a_program_does() -> None:
    texts = ("/** @sensitive x */", "/** @param x */", "")
    found = [
        CompiledProgram(compile_text(f"namespace a {{ {text} event facet E(x: String) }}").program_json)
        for text in texts
    ]

    assert found[0].fingerprint != found[1].fingerprint == found[2].fingerprint
    again = CompiledProgram.stored(found[0].fingerprint, found[0].text)
    assert sensitive_marks(again).params == {"a.E": {"x"}}
