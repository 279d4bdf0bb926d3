"""The library in an editor: its names are known in every text, and its own text can be opened."""

from afl.library.declarations import PATH
from tests.unit.editors.editor import Editor

TEXT = """\
namespace waits {
    event facet Ask()
    workflow W(key: String) => (data: Json) andThen {
%s
    }
}
"""
#: Where the names are declared: the lines of the library's text, counted from 0.
LINES = PATH.read_text().split("\n")


def line_of(words: str) -> int:
    return next(number for number, line in enumerate(LINES) if words in line)


def test_the_library_needs_no_file_in_the_workspace(editor: Editor) -> None:
    lines = "        a = afl.WaitForEvent(name = $.key)\n        b = Ask() with Retry(times = 2)\n"

    assert editor.findings(editor.open("waits.afl", TEXT % f"{lines}        yield W(data = a.data)")) == []


def test_full_names_of_the_library_are_proposed_and_complete(editor: Editor) -> None:
    found = editor.open("callee.afl", TEXT % "        a = ‸").proposals()
    assert {"afl.WaitForEvent", "afl.Sleep", "afl.WaitUntil", "afl.ContinueAsNew"} <= set(found)
    assert not {"afl.Retry", "afl.Timeout"} & set(found)

    behind = editor.open("behind.afl", TEXT % "        a = afl.‸").proposals()
    assert {"WaitForEvent", "Sleep", "WaitUntil", "ContinueAsNew"} <= set(behind)


def test_a_with_proposes_what_is_mixed_in_and_shortly(editor: Editor) -> None:
    found = set(editor.open("mixin.afl", TEXT % "        a = Ask() with ‸").proposals())

    assert {"Retry", "Timeout"} <= {name.removeprefix("afl.") for name in found}
    assert "afl.Sleep" not in found


def test_a_use_proposes_the_librarys_namespace_and_makes_its_names_short(editor: Editor) -> None:
    assert "afl" in editor.open("use.afl", "namespace user {\n    use ‸\n}\n").proposals()

    short = "namespace user {\n    use afl\n    workflow W() andThen {\n        a = ‸\n    }\n}\n"
    assert "Sleep" in editor.open("short.afl", short).proposals()


def test_a_call_of_the_library_completes_its_arguments(editor: Editor) -> None:
    found = editor.open("call.afl", TEXT % '        a = afl.WaitForEvent(name = "x", ‸').proposals()

    assert set(found) == {"timeout_ms"}


def test_a_name_of_the_library_shows_its_signature_and_its_documentation(editor: Editor) -> None:
    shown = editor.open("hover.afl", TEXT % "        a = afl.WaitFor‸Event(name = $.key)").hover()

    assert shown is not None
    assert "event facet WaitForEvent(name: String, timeout_ms: Long = 0) => (" in shown
    assert "in namespace `afl`" in shown
    assert "Waits for an external event" in shown
    assert "* `timeout_ms`: " in shown


def test_a_parameter_of_the_library_shows_its_tag(editor: Editor) -> None:
    shown = editor.open("tag.afl", TEXT % "        a = afl.WaitForEvent(na‸me = $.key)").hover()

    assert shown == "```afl\nname: String\n```\n\nparameter of `afl.WaitForEvent`\n\nThe name of the event"


def test_the_definition_of_a_name_is_in_the_librarys_own_text(editor: Editor) -> None:
    declared = line_of("event facet Sleep(")

    used = editor.open("definition.afl", TEXT % "        a = afl.Sle‸ep(ms = 1)")
    assert used.definitions() == [("afl.afl", declared, LINES[declared].index("Sleep"))]
    policy = editor.open("policy.afl", TEXT % "        a = Ask() with Ret‸ry(times = 1)")
    assert policy.definitions() == [("afl.afl", line_of("facet Retry("), 10)]
    namespace = editor.open("namespace.afl", TEXT % "        a = a‸fl.Sleep(ms = 1)")
    assert namespace.definitions() == [("afl.afl", line_of("namespace afl"), 0)]


def test_the_librarys_text_itself_is_opened_without_findings(editor: Editor) -> None:
    assert editor.findings(editor.open(str(PATH), PATH.read_text())) == []
