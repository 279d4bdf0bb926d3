"""The library of namespace `afl`: what a program has to write to use it, and what the compiler makes of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from afl.compiled import ProgramVersionError, check_schema_version
from afl.compiled.program import CompiledProgram
from afl.compiled.resolved import add_resolved
from afl.compiled.runtime_mixins import RetryValues
from afl.compiler import check_input, compile_text
from afl.config import AFLConfig, ResolverConfig
from afl.formatting import format_text
from afl.graph import graph_of
from afl.library.declarations import PATH, library, library_text
from afl.output.documentation import markdown
from afl.source import CompilerInput, FileOrigin, SourceEntry

from .checking import codes, findings, marked

#: Bodies of a workflow; each stands for one way of writing a name.
QUALIFIED = 'namespace n { workflow W() andThen { s = afl.WaitForEvent(name = "paid") } }'
IMPORTED = 'namespace n { use afl workflow W() andThen { s = WaitForEvent(name = "paid") } }'
RETRYING = "namespace n { event facet Ask() workflow W() andThen { s = Ask() with afl.Retry() } }"


def compiled(text: str) -> Mapping[str, Any]:
    return compile_text(text, include_locations=False).program_json


def library_of(program: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declarations of the namespace `afl` in a compiled program, by name."""
    return {
        declaration["name"]: declaration
        for namespace in program["declarations"]
        if namespace["name"] == "afl"
        for declaration in namespace["declarations"]
    }


# --- what a program writes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [QUALIFIED, IMPORTED])
def test_a_program_uses_the_library_by_its_full_names_or_after_a_use(text: str) -> None:
    assert codes(text) == []
    assert list(library_of(compiled(text))) == ["WaitForEvent"]


def test_a_short_name_without_a_use_is_unknown_and_the_full_one_is_proposed() -> None:
    (found,) = findings("namespace n { facet F() andThen { s = Sleep(ms = 1) } }")

    assert found.code == "REF_UNKNOWN_FACET"
    assert "afl.Sleep" in (found.hint or "")


def test_a_misspelt_name_of_the_library_is_an_error_with_the_name_that_is_near() -> None:
    (found,) = findings("namespace n { facet F() andThen { s = afl.WaitForEvents() } }")

    assert (found.code, found.is_error) == ("REF_UNKNOWN_FACET", True)
    assert "afl.WaitForEvent" in (found.hint or "")


def test_arguments_and_results_of_the_library_are_checked_as_those_of_any_facet() -> None:
    text = (
        "namespace n { workflow W() => (d: Json) andThen {\n"
        'a = afl.WaitForEvent(nme = "x", timeout_ms = "1")\n'
        "b = afl.Sleep(seconds = 1.5) yield W(d = [a.dta, b.woke_at]) } }"
    )
    assert marked(text) == [
        ("ARG_UNKNOWN", "nme"),
        ("TYPE_ARG_MISMATCH", '"1"'),
        ("TYPE_ARG_MISMATCH", "1.5"),
        ("REF_INVALID_STEP_ATTRIBUTE", "a.dta"),
    ]


def test_arguments_of_the_library_are_expressions_as_anywhere() -> None:
    text = (
        'namespace n { workflow W(n: Int) andThen { a = afl.WaitForEvent(name = "p-" ++ $.n, timeout_ms = 60 * $.n) } }'
    )
    assert codes(text) == []


def test_a_declaration_with_a_name_of_the_library_is_refused() -> None:
    (found,) = findings("namespace afl { facet Sleep(x: Int) }")

    assert (found.code, found.is_error) == ("LIBRARY_NAME", True)
    assert "'afl.Sleep' is declared by the library" in found.message


def test_a_program_may_have_other_names_in_the_namespace_of_the_library() -> None:
    text = "namespace afl { event facet Doze() workflow W() andThen { s = Sleep(ms = 1) t = Doze() } }"

    assert codes(text) == []
    program = CompiledProgram(compiled(text))
    assert {name: item.is_library for name, item in program.declarations.items()} == {
        "afl.Doze": False,
        "afl.W": False,
        "afl.Sleep": True,
    }


def test_a_facet_of_the_programs_own_keeps_its_short_name_beside_the_library() -> None:
    text = (
        "namespace a { event facet Sleep(x: Int) }"
        "namespace b { workflow W() andThen { s = Sleep(x = 1) t = afl.Sleep(ms = 1) } }"
    )
    assert codes(text) == []
    assert CompiledProgram(compiled(text)).names.resolve("Sleep", "b").found == "a.Sleep"


def test_a_name_of_two_imports_is_ambiguous_if_one_is_the_library() -> None:
    text = "namespace a { event facet Sleep() } namespace b { use a use afl workflow W() andThen { s = Sleep() } }"
    assert codes(text) == ["REF_AMBIGUOUS_FACET"]


# --- what the compiler makes of it -----------------------------------------------------------------------------------


def test_the_compiled_program_has_the_declarations_that_it_uses_marked_and_no_others() -> None:
    program = compiled(
        "namespace n { workflow W() andThen { a = afl.Sleep(ms = 1) b = afl.ContinueAsNew(inputs = #{}) } }"
    )

    added = library_of(program)
    assert {name: (item["type"], item["answeredBy"]) for name, item in added.items()} == {
        "Sleep": ("EventFacetDecl", "runtime"),
        "ContinueAsNew": ("EventFacetDecl", "runtime"),
    }
    assert [slot["name"] for slot in added["Sleep"]["params"]] == ["ms", "seconds", "minutes", "hours", "days"]


def test_a_program_without_the_library_has_nothing_of_it() -> None:
    step = "a = Ask() with Timeout(ms = 5) with Retry(times = 1)"

    program = compiled(f"namespace n {{ event facet Ask() workflow W() andThen {{ {step} }} }}")

    assert [item["name"] for item in program["declarations"]] == ["n"]
    assert "answeredBy" not in json.dumps(program)


def test_the_same_program_with_locations_and_documentation_has_the_same_fingerprint() -> None:
    plain, full = CompiledProgram(compiled(QUALIFIED)), CompiledProgram(compile_text(QUALIFIED).program_json)

    assert plain.fingerprint == full.fingerprint
    assert CompiledProgram.from_text(full.text).declarations["afl.WaitForEvent"].is_library


def test_a_declaration_without_the_mark_is_an_ordinary_event_facet() -> None:
    sleep = {"type": "EventFacetDecl", "name": "Sleep", "params": [{"name": "ms", "type": "Long"}]}
    program = CompiledProgram({"declarations": [{"type": "Namespace", "name": "afl", "declarations": [sleep]}]})

    assert [facet.qualified_name for facet in program.event_facets()] == ["afl.Sleep"]


def test_agents_answer_none_of_the_library() -> None:
    text = "namespace n { event facet Ask() workflow W() andThen { a = Ask() b = afl.Sleep(ms = 1) } }"

    assert [facet.qualified_name for facet in CompiledProgram(compiled(text)).event_facets()] == ["n.Ask"]


def test_steps_of_the_library_may_be_passed_on_as_values() -> None:
    text = (
        "namespace n { facet Note(of: afl.WaitForEvent) => (d: Json) andThen { yield Note(d = $.of.data) }"
        'workflow W() andThen { w = afl.WaitForEvent(name = "x") n = Note(of = w) } }'
    )
    assert codes(text) == []
    assert list(library_of(compiled("namespace n { facet Note(of: [afl.WaitForEvent]) }"))) == ["WaitForEvent"]


# --- sources, documentation, graphs ----------------------------------------------------------------------------------


def test_no_source_is_looked_for_and_the_librarys_own_file_is_never_one(tmp_path: Path) -> None:
    (tmp_path / "main.afl").write_text(QUALIFIED)
    config = AFLConfig(resolver=ResolverConfig(source_paths=[str(PATH.parent), str(tmp_path)]))
    given = CompilerInput([SourceEntry(IMPORTED, FileOrigin(str(tmp_path / "main.afl")))])

    checked = check_input(given, config=config)

    assert checked.diagnostics == ()
    assert checked.sources.library_sources == []


def test_the_librarys_text_is_laid_out_and_documents_every_declaration() -> None:
    assert format_text(library_text()) == library_text()
    assert all(item.doc is not None and item.doc.description for item in library().values())
    page = markdown(library_text())
    assert "# Namespace `afl`" in page
    assert "| `timeout_ms` | How long the wait lasts at most" in page


def test_a_graph_tells_what_the_runtime_answers_from_what_agents_answer() -> None:
    text = "namespace n { event facet Ask() workflow W() andThen { a = Ask() b = afl.Sleep(ms = 1) } }"
    program = CompiledProgram(compile_text(text).program_json)

    drawn = graph_of(program, program.workflow("W"))

    assert {item.title: (item.kind, item.detail) for item in drawn.vertices()} == {
        "a": ("event", "Ask"),
        "b": ("wait", "Sleep"),
    }


def test_the_defaults_of_a_retry_are_those_of_the_librarys_text() -> None:
    declared = {slot["name"]: slot["default"] for slot in library_of(compiled(RETRYING))["Retry"]["params"]}

    values = {name: default.get("value", default.get("elements")) for name, default in declared.items()}
    assert values == {**RetryValues()._asdict(), "errors": []}


# --- older releases --------------------------------------------------------------------------------------------------

#: A program in which the runtime answers or repeats nothing.
PLAIN = """namespace n {
    facet Retry(times: Int)
    event facet Ask()
    workflow W() andThen { s = Ask() with Retry(times = 1) with Timeout(ms = 5) }
}"""
#: The same, with the runtime's `Retry`.
SHORT_RETRY = PLAIN.replace("    facet Retry(times: Int)\n", "")


@pytest.mark.parametrize("text", [QUALIFIED, IMPORTED, RETRYING, SHORT_RETRY])
def test_a_release_without_the_library_refuses_a_program_that_needs_it(text: str) -> None:
    before = "1.0"
    version = compiled(text)["schemaVersion"]

    with pytest.raises(ProgramVersionError, match=r"schemaVersion 2\.0, this release reads up to 1\.0: upgrade"):
        check_schema_version(version, before)
    check_schema_version(version)


@pytest.mark.parametrize("text", [PLAIN, "namespace n { facet F() }"])
def test_a_program_that_needs_no_runtime_has_the_form_of_every_release(text: str) -> None:
    assert "schemaVersion" not in compiled(text)


@pytest.mark.parametrize(("text", "version"), [(QUALIFIED, "2.0"), (PLAIN, "1.0")])
def test_a_resolved_program_says_its_form_once_and_first(text: str, version: str) -> None:
    document = add_resolved(dict(compiled(text)))

    assert list(document)[:2] == ["type", "schemaVersion"]
    assert document["schemaVersion"] == version


# --- Timeout and Retry -----------------------------------------------------------------------------------------------

EVENT = "event facet Ask(cents: Int = 1) facet Plain()"


@pytest.mark.parametrize("mixin", ["Retry()", "Timeout(ms = 5)", "afl.Retry(times = 1)", "afl.Timeout(hours = 2)"])
def test_timeout_and_retry_are_known_with_and_without_their_namespace(mixin: str) -> None:
    assert codes(f"namespace n {{ {EVENT} facet F() andThen {{ s = Ask() with {mixin} }} }}") == []
    assert codes(f"namespace n {{ event facet Ask() with {mixin} }}") == []


@pytest.mark.parametrize("mixin", ["Retry(times = 1)", "Timeout(ms = 5)", "afl.Retry(times = 1)"])
def test_on_what_no_agent_answers_they_are_warned_about(mixin: str) -> None:
    name = mixin.partition("(")[0]
    for text in (
        f"namespace n {{ {EVENT} facet F() andThen {{ s = Plain() with {mixin} }} }}",
        f"namespace n {{ {EVENT} facet F() with {mixin} andThen {{ s = Plain() }} }}",
        f"namespace n {{ facet F() andThen {{ s = afl.Sleep(ms = 1) with {mixin} }} }}",
    ):
        (found,) = findings(text)
        assert (found.code, found.is_error) == ("MIXIN_NOT_EVENT", False)
        assert found.message.startswith(name)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ('afl.WaitForEvent(name = "x") with Timeout(minutes = 1)', "time-out of its own: timeout_ms"),
        ('afl.WaitForEvent(name = "x") with Retry(times = 1)', "leave it out"),
        ("afl.Sleep(ms = 1) with Timeout(minutes = 1)", "leave it out"),
        ("Plain() with Timeout(minutes = 1)", "put it on the event facet itself"),
    ],
)
def test_the_warning_says_what_would_do_it(call: str, hint: str) -> None:
    (found,) = findings(f"namespace n {{ {EVENT} facet F() andThen {{ s = {call} }} }}")

    assert hint in (found.hint or "")


@pytest.mark.parametrize(
    ("body", "warned"),
    [
        ("andThen { c = afl.ContinueAsNew(inputs = $.m) }", True),
        ("andThen { s = Ask() c = afl.ContinueAsNew(inputs = #{}) }", True),
        ('andThen { s = Ask() c = afl.ContinueAsNew(inputs = #{"m": s.r}) }', False),
        ("andThen { s = Ask() andThen { c = afl.ContinueAsNew(inputs = #{}) } }", False),
        ("andThen { s = Ask() } andThen { c = afl.ContinueAsNew(inputs = #{}) }", False),
        ("andThen when { case $.m == null => { } case _ => { c = afl.ContinueAsNew(inputs = #{}) } }", False),
        ("andThen foreach x in $.m { c = afl.ContinueAsNew(inputs = #{}) }", False),
    ],
)
def test_a_workflow_that_always_continues_as_new_at_once_is_warned_about(body: str, warned: bool) -> None:
    found = codes(f"namespace n {{ event facet Ask() => (r: Json) workflow W(m: Json) {body} }}")

    assert ("CONTINUES_AT_ONCE" in found) == warned


def test_a_facet_of_the_programs_own_takes_the_short_name() -> None:
    text = (
        "namespace n { facet Retry(times: Int) facet Timeout(zone: String) event facet Ask()"
        ' facet F(x: Int) andThen { s = Ask() with Retry(times = $.x) with Timeout(zone = "z") } }'
    )
    assert codes(text) == []


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ("times = $.x", ("MIXIN_NOT_LITERAL", "$.x")),
        ("errors = [$.x]", ("MIXIN_NOT_LITERAL", "[$.x]")),
        ("delay_ms = 1 + 1", ("MIXIN_NOT_LITERAL", "1 + 1")),
        ("times = -1", ("MIXIN_OUT_OF_RANGE", "-1")),
        ("delay_ms = -5", ("MIXIN_OUT_OF_RANGE", "-5")),
        ("delay_ms = 3153600000001", ("MIXIN_OUT_OF_RANGE", "3153600000001")),
        ("max_delay_ms = 3153600000001", ("MIXIN_OUT_OF_RANGE", "3153600000001")),
        ("factor = 0.5", ("MIXIN_OUT_OF_RANGE", "0.5")),
        ("errors = [1]", ("TYPE_ARG_MISMATCH", "1")),
        ('errors = "Busy"', ("TYPE_ARG_MISMATCH", '"Busy"')),
        ("time = 1", ("ARG_UNKNOWN", "time")),
    ],
)
def test_a_retry_with_a_value_that_it_cannot_have_is_an_error_at_that_value(
    arguments: str, wrong: tuple[str, str]
) -> None:
    text = f"namespace n {{ {EVENT} facet F(x: Int) andThen {{ s = Ask() with Retry({arguments}) }} }}"

    assert marked(text) == [wrong]
    assert findings(text)[0].is_error


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "times = 0",
        "delay_ms = 3153600000000",
        "factor = 1",
        "max_delay_ms = null",
        'errors = ["Busy", "Away"]',
        "times = 5, delay_ms = 10, factor = 1.5, max_delay_ms = 90, errors = []",
    ],
)
def test_a_retry_with_literals_in_their_ranges_is_right(arguments: str) -> None:
    assert codes(f"namespace n {{ {EVENT} facet F() andThen {{ s = Ask() with Retry({arguments}) }} }}") == []


def test_a_timeout_that_is_not_a_literal_has_no_effect_and_is_warned_about() -> None:
    text = f"namespace n {{ {EVENT} facet F(x: Int) andThen {{ s = Ask() with Timeout(seconds = $.x, ms = -1) }} }}"

    assert marked(text) == [("MIXIN_NOT_LITERAL", "$.x"), ("MIXIN_NOT_LITERAL", "-1")]
    assert not any(item.is_error for item in findings(text))


def test_a_timeout_of_more_than_a_hundred_years_is_an_error() -> None:
    text = f"namespace n {{ {EVENT} facet F() andThen {{ s = Ask() with Timeout(hours = 876000, ms = 1) }} }}"

    assert marked(text) == [("MIXIN_OUT_OF_RANGE", "Timeout")]


def test_arguments_of_a_retry_are_no_values_for_parameters_of_the_same_name() -> None:
    text = "namespace n { event facet Ask(times: Int) facet F() andThen { s = Ask() with Retry(times = 2) } }"

    assert codes(text) == ["ARG_MISSING"]
