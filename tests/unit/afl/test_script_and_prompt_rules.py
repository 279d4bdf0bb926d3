"""The checks of scripts and prompts before anything runs."""

import subprocess
import sys

import pytest

from afl import ast
from afl.validation import validate_program

from .checking import codes, findings, marked

G = "facet G(x: Json)"


# -- names that a script sets -----------------------------------------------------------------------------------------


def test_a_name_that_a_script_sets_is_an_input_of_the_blocks_and_an_attribute_of_the_step() -> None:
    text = (
        f'namespace n {{ {G} facet F(a: Int) => (r: Int) script {{ result["big"] = params["a"] > 1 }}'
        " andThen { g = G(x = $.big) andThen { h = G(x = $.big) } yield F(r = 1) }"
        " facet U() andThen { f = F(a = 1) andThen { g = G(x = $.big) } g = G(x = f.big ++ f.r) } }"
    )
    assert codes(text) == []


def test_other_names_are_unknown_and_the_set_ones_are_named() -> None:
    (found,) = findings(
        f'namespace n {{ {G} facet F() script {{ result["big"] = 1 }} andThen {{ g = G(x = $.bug) }} }}'
    )

    assert (found.code, found.hint) == ("REF_INVALID_INPUT", "did you mean big?")
    assert "$.big" in found.message


@pytest.mark.parametrize(
    "code",
    [
        "result.update(params)",
        "result = dict(params)",
        "for k in params: result[k] = 1",
        "f(result)",
        "1 +",
        "x = result",
    ],
)
def test_a_script_that_may_set_any_name_makes_none_unknown(code: str) -> None:
    text = (
        f'namespace n {{ {G} facet F() script "{code}" andThen {{ g = G(x = $.whatever) }}'
        " facet U() andThen { f = F() g = G(x = f.other) } }"
    )

    assert [code for code in codes(text) if code.startswith("REF")] == []


def test_a_name_set_over_a_parameter_has_no_known_type() -> None:
    text = "namespace n {{ {} facet F(a: Int) script {{ {} }} andThen {{ g = G(x = $.a && true) }} }}"

    assert codes(text.format(G, 'result["a"] = True')) == []
    assert codes(text.format(G, 'result["b"] = True')) == ["TYPE_BOOLEAN_OPERAND_REQUIRED"]


def test_arguments_of_a_signatures_mixins_do_not_see_what_the_script_sets() -> None:
    text = 'namespace n { facet M(x: Json) facet F() with M(x = $.k) as m script { result["k"] = 1 } }'

    assert codes(text) == ["REF_INVALID_INPUT"]


# -- the code itself --------------------------------------------------------------------------------------------------


def test_a_syntax_error_is_marked_inside_a_raw_body_of_several_lines() -> None:
    (found,) = findings("namespace n { facet F() script {\n    a = 1\n    if a:\n        b = = 2\n} }")

    assert (found.code, found.line, found.column) == ("SCRIPT_SYNTAX", 4, 13)


def test_a_syntax_error_is_marked_inside_a_quoted_script() -> None:
    text = 'namespace n { facet F() script python "x = (1," }'

    assert [code for code, _ in marked(text)] == ["SCRIPT_SYNTAX"]
    assert marked(text.replace("(1,", ") + 1")) == [("SCRIPT_SYNTAX", ")")]


def test_every_refused_name_is_reported_where_it_stands() -> None:
    text = "namespace n { facet F() andThen script {\n    import os\n    x = params.__class__\n    y = open\n} }"

    assert [(item.code, item.line, item.is_error) for item in findings(text)] == [
        ("SCRIPT_NOT_ALLOWED", 2, True),
        ("SCRIPT_NOT_ALLOWED", 3, True),
        ("SCRIPT_UNKNOWN_BUILTIN", 4, False),
    ]


def test_places_in_scripts_are_counted_in_characters() -> None:
    text = 'namespace n { facet F() script { x = "äöü€𝄞"; y = open } }'

    assert marked(text) == [("SCRIPT_UNKNOWN_BUILTIN", "open")]


@pytest.mark.parametrize("place", ["{}", "andThen {}", "andThen {{ g = G(x = 1) andThen {} }}"])
def test_scripts_are_checked_wherever_they_stand(place: str) -> None:
    for script, code in [
        ("script { }", "SCRIPT_EMPTY"),
        ('script "  "', "SCRIPT_EMPTY"),
        ("script { 1 + }", "SCRIPT_SYNTAX"),
    ]:
        assert codes(f"namespace n {{ {G} facet F() {place.format(script)} }}") == [code]


def test_another_language_is_refused_in_a_tree_made_by_hand() -> None:
    decl = ast.FacetDecl(ast.FacetSig("F"), pre_script=ast.ScriptBlock("perl", "die"))
    program = ast.Program(namespaces=[ast.Namespace("n", facets=[decl])])

    (found,) = validate_program(program)
    assert (found.code, found.message) == (
        "SCRIPT_UNSUPPORTED_LANGUAGE",
        "Unsupported script language 'perl'; there is only python",
    )


def test_a_script_without_a_place_is_checked_too() -> None:
    decl = ast.FacetDecl(ast.FacetSig("F"), pre_script=ast.ScriptBlock("python", "1 +"))

    (found,) = validate_program(ast.Program(facets=[decl]))
    assert (found.code, found.line) == ("SCRIPT_SYNTAX", None)


def test_an_empty_reference_in_a_tree_made_by_hand_is_refused() -> None:
    block = ast.Block([ast.SysLogStmt([ast.NamedArg("a", ast.Reference([], is_input=False))])])
    decl = ast.FacetDecl(ast.FacetSig("F"), ast.AndThenBlock(block))

    assert [item.code for item in validate_program(ast.Program(facets=[decl]))] == ["REF_INVALID_STEP_FORMAT"]


def test_what_reads_python_is_only_loaded_when_there_is_a_script() -> None:
    code = (
        "import sys; from afl.compiler import compile_text\n"
        "compile_text('namespace n { facet F() andThen { } }')\n"
        "print('afl.scripts.check' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "False\n"


# -- prompts ----------------------------------------------------------------------------------------------------------


def test_every_unknown_placeholder_is_reported_once_for_each_text() -> None:
    text = (
        "namespace n { event facet F(topic: String) prompt {"
        ' system "{tone} {topic} {tone}" template "{tone} {topik} {{not_one}} {not one} { }" } }'
    )
    found = findings(text)

    assert [item.code for item in found] == ["PROMPT_INVALID_PLACEHOLDER"] * 3
    assert [item.message.split(":")[0] for item in found] == [
        "Invalid placeholder '{tone}' in system",
        "Invalid placeholder '{tone}' in template",
        "Invalid placeholder '{topik}' in template",
    ]
    assert found[2].hint == "did you mean topic?"


def test_returns_are_no_placeholders() -> None:
    text = 'namespace n { event facet F() => (queue: String) prompt { template "{queue}" } }'

    assert codes(text) == ["PROMPT_INVALID_PLACEHOLDER"]


def test_a_prompt_may_have_a_catch() -> None:
    text = 'namespace n { event facet F() => (q: String) prompt { template "x" } catch { yield F(q = $.error) } }'

    assert codes(text) == []
