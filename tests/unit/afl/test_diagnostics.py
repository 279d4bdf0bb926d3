"""The display of findings."""

from afl.diagnostics import EXCERPT_WIDTH, Diagnostic, Severity, render


def finding(
    line: int, column: int, end_column: int, *, end_line: int | None = None, hint: str | None = None
) -> Diagnostic:
    return Diagnostic(
        code="CODE",
        severity=Severity.ERROR,
        message="odd",
        line=line,
        column=column,
        end_line=end_line or line,
        end_column=end_column,
        source_id="file://a/b.afl",
        hint=hint,
    )


def test_an_excerpt_has_the_line_and_carets_below_the_place() -> None:
    shown = render(finding(2, 3, 5, hint="do better"), "one\nab cd\nthree")

    assert shown == "a/b.afl:2:3: error[CODE]: odd\n  2 | ab cd\n    |   ^^\n  hint: do better"


def test_carets_stand_right_below_tabs_and_wide_characters() -> None:
    shown = render(finding(1, 5, 7), "\t日本e\u0301xy")

    assert shown.splitlines()[1:] == ["  1 |     日本e\u0301xy", "    |          ^"]


def test_a_place_over_several_lines_is_marked_to_the_end_of_its_first() -> None:
    assert render(finding(1, 2, 2, end_line=3), "abcd\ne\nf").splitlines()[2] == "    |  ^^^"


def test_the_end_of_the_text_gets_a_caret_behind_it() -> None:
    assert render(finding(1, 4, 5), "abc").splitlines()[1:] == ["  1 | abc", "    |    ^"]


def test_very_long_lines_are_cut_around_the_place() -> None:
    lines = render(finding(1, 50_001, 50_003), "x" * 50_000 + "AB" + "y" * 50_000).splitlines()

    assert len(lines[1]) <= EXCERPT_WIDTH + len("  1 | ")
    assert lines[1][lines[2].index("^") :][:2] == "AB"


def test_control_characters_of_a_source_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in render(finding(1, 1, 2), "\x1b[31mred\r\n")


def test_colours_are_used_on_request_only() -> None:
    assert "\x1b[31m" in render(finding(1, 1, 2), "a", colour=True)
    assert "\x1b" not in render(finding(1, 1, 2), "a")


def test_a_finding_without_place_or_text_is_one_line() -> None:
    bare = Diagnostic(code="C", severity=Severity.WARNING, message="m")

    assert render(bare, "text") == "<string>: warning[C]: m"
    assert render(finding(9, 1, 2), "only one line") == "a/b.afl:9:1: error[CODE]: odd"
    assert bare.to_json() == {"code": "C", "severity": "warning", "message": "m"}


def test_what_a_program_and_its_path_say_steers_no_terminal() -> None:
    hostile = "x\x1b[2J\n\u202e\u2028"
    said = Diagnostic(
        code="CODE",
        severity=Severity.ERROR,
        message=hostile,
        source_id=f"file://{hostile}",
        line=1,
        column=1,
        hint=hostile,
    )

    for shown in (render(said, f"{hostile}y"), said.headline()):
        assert all(line.isprintable() for line in shown.split("\n"))
        assert "x\\x1b[2J\\n\\u202e\\u2028" in shown
    assert len(render(said, hostile).split("\n")) == 4
