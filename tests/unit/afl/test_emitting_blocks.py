"""The JSON of mixins, cases, catches, system statements, scripts, prompts, implicits and doc comments."""

import json
from typing import Any

import pytest

from afl import ast
from afl.emitter import emit_dict
from afl.output.tree_json import tree_json
from afl.parser import parse

from .programs import WHOLE_LANGUAGE

ONE = {"type": "Int", "value": 1}
TWO = {"type": "Int", "value": 2}
CALL_G = {"type": "CallExpr", "target": "G"}
STEP_S = {"type": "StepStmt", "name": "s", "call": CALL_G}
YIELD_F = {"type": "YieldStmt", "call": {"type": "CallExpr", "target": "F"}}
SCRIPT = {"type": "ScriptBlock", "language": "python", "code": "a"}


def plain(value: Any) -> Any:
    """Return a document without the ids of its nodes."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items() if name != "id"}
    return [plain(item) for item in value] if isinstance(value, list) else value


def declared(text: str) -> Any:
    (found,) = emit_dict(parse(text), include_locations=False)["declarations"]
    return plain(found)


def text_of(value: object) -> str:
    """Return JSON text, in which the order of the keys counts."""
    return json.dumps(value)


def test_a_declaration_with_all_its_parts_has_them_in_order() -> None:
    text = """/** D. @param */ facet F(a: Int) => (b: Int) with x.M(n = 1) as m with N()
        script { a } andThen { s = G() } catch { yield F() }"""

    assert text_of(declared(text)) == text_of(
        {
            "type": "FacetDecl",
            "name": "F",
            "doc": {"description": "D. @param", "params": [], "returns": []},
            "params": [{"name": "a", "type": "Int"}],
            "returns": [{"name": "b", "type": "Int"}],
            "mixins": [
                {"type": "MixinSig", "target": "x.M", "args": [{"name": "n", "value": ONE}], "alias": "m"},
                {"type": "MixinSig", "target": "N"},
            ],
            "pre_script": SCRIPT,
            "body": {"type": "AndThenBlock", "steps": [STEP_S]},
            "catch": {"type": "CatchClause", "yield": YIELD_F},
        }
    )


def test_a_step_with_all_its_parts_has_them_in_order() -> None:
    text = "facet F() andThen { s = G(n = 1) with M(n = 2) as m with N() andThen { } catch { s = G() } }"

    assert text_of(declared(text)["body"]["steps"][0]) == text_of(
        {
            "type": "StepStmt",
            "name": "s",
            "call": {
                "type": "CallExpr",
                "target": "G",
                "args": [{"name": "n", "value": ONE}],
                "mixins": [
                    {"type": "MixinCall", "target": "M", "args": [{"name": "n", "value": TWO}], "alias": "m"},
                    {"type": "MixinCall", "target": "N"},
                ],
            },
            "body": {"type": "AndThenBlock"},
            "catch": {"type": "CatchClause", "steps": [STEP_S]},
        }
    )


def test_cases_hold_their_block_and_the_default_says_so() -> None:
    text = "facet F() andThen when { case 1 => { s = G() yield F() yield F() } case _ => { } }"

    assert text_of(declared(text)["body"]) == text_of(
        {
            "type": "AndThenBlock",
            "when": {
                "type": "WhenBlock",
                "cases": [
                    {"type": "WhenCase", "condition": ONE, "steps": [STEP_S], "yields": [YIELD_F, YIELD_F]},
                    {"type": "WhenCase", "default": True},
                ],
            },
        }
    )


def test_a_catch_with_cases_has_nothing_else() -> None:
    assert declared("facet F() catch when { case _ => { yield F() } }")["catch"] == {
        "type": "CatchClause",
        "when": {"type": "WhenBlock", "cases": [{"type": "WhenCase", "default": True, "yield": YIELD_F}]},
    }
    assert declared("facet F() catch when { }")["catch"]["when"] == {"type": "WhenBlock", "cases": []}


def test_a_clause_is_a_script() -> None:
    assert declared('facet F() andThen script "a" andThen script ruby { a }')["body"] == [
        {"type": "AndThenBlock", "script": SCRIPT},
        {"type": "AndThenBlock", "script": {**SCRIPT, "language": "ruby"}},
    ]


def test_a_script_alone_leaves_no_body() -> None:
    assert declared("event facet F() script { a }") == {"type": "EventFacetDecl", "name": "F", "pre_script": SCRIPT}


def test_system_statements_stand_among_the_steps() -> None:
    text = "facet F() andThen { sys.log(a = 1) s = G() sys.log() sys.assert(1) }"

    assert text_of(declared(text)["body"]["steps"]) == text_of(
        [
            {"type": "SysLogStmt", "args": [{"name": "a", "value": ONE}]},
            STEP_S,
            {"type": "SysLogStmt"},
            {"type": "SysAssertStmt", "condition": ONE},
        ]
    )


def test_a_yield_with_a_mixin_is_two_yields_whose_calls_have_none() -> None:
    assert declared("facet F() andThen { yield F() with G() as g }")["body"] == {
        "type": "AndThenBlock",
        "yields": [YIELD_F, {"type": "YieldStmt", "call": CALL_G}],
    }


def test_a_prompt_is_the_body() -> None:
    text = 'event facet F() prompt { model "m" template "t" system "s" } catch { }'

    assert text_of(declared(text)) == text_of(
        {
            "type": "EventFacetDecl",
            "name": "F",
            "body": {"type": "PromptBlock", "system": "s", "template": "t", "model": "m"},
            "catch": {"type": "CatchClause"},
        }
    )
    assert declared("event facet F() prompt { }")["body"] == {"type": "PromptBlock"}


def test_an_implicit_has_its_call() -> None:
    assert declared("implicit i = G() with M()") == {
        "type": "ImplicitDecl",
        "name": "i",
        "call": {**CALL_G, "mixins": [{"type": "MixinCall", "target": "M"}]},
    }


def test_implicits_stand_between_workflows_and_schemas() -> None:
    text = "implicit i = F() schema S { } workflow W() facet F()"
    document = emit_dict(parse(f"{text} namespace n {{ {text} use n }}"))

    assert [item["name"] for item in document["declarations"]] == ["n", "F", "W", "i", "S"]
    assert [item["name"] for item in document["declarations"][0]["declarations"]] == ["F", "W", "i", "S"]


def test_namespaces_and_schemas_have_their_doc_in_front_of_what_they_hold() -> None:
    text = "/** N */ namespace n { use n /** S\n * @param a b\n * @return c d */ schema S { } }"

    namespace = declared(text)
    assert list(namespace) == ["type", "name", "doc", "uses", "declarations"]
    assert text_of(namespace["declarations"][0]) == text_of(
        {
            "type": "SchemaDecl",
            "name": "S",
            "doc": {
                "description": "S",
                "params": [{"name": "a", "description": "b"}],
                "returns": [{"name": "c", "description": "d"}],
            },
            "fields": [],
        }
    )


def test_id_and_location_come_last() -> None:
    text = (
        'facet F() script "a" andThen { sys.log() sys.assert(1) } catch { } event facet P() prompt { } implicit i = F()'
    )
    facet, event_facet, implicit = emit_dict(parse(text))["declarations"]

    found = [facet, facet["pre_script"], *facet["body"]["steps"], facet["catch"], event_facet["body"], implicit]
    assert all(list(node)[-2:] == ["id", "location"] for node in found)


def test_ids_do_not_move_when_statements_of_other_kinds_come_and_go() -> None:
    before = emit_dict(parse("facet F() andThen { sys.log() sys.assert(1) }"))["declarations"][0]["body"]["steps"]
    after = emit_dict(parse("facet F() andThen { s = G() sys.assert(2) t = G() sys.log(a = 1) }"))

    ids = {step["type"]: step["id"] for step in after["declarations"][0]["body"]["steps"]}
    assert [ids[step["type"]] for step in before] == [step["id"] for step in before]


@pytest.mark.parametrize(
    "node",
    [
        ast.MixinSig("M", [], "m"),
        ast.MixinCall("M"),
        ast.WhenBlock([ast.WhenCase(ast.Block())]),
        ast.CatchClause(ast.Block()),
        ast.SysLogStmt(),
        ast.SysAssertStmt(ast.Literal(True, "boolean")),
        ast.ScriptBlock("python", "a"),
        ast.PromptBlock(),
        ast.ImplicitDecl("i", ast.CallExpr("F")),
    ],
    ids=lambda node: type(node).__name__,
)
def test_a_node_can_be_emitted_by_itself(node: ast.ASTNode) -> None:
    assert emit_dict(node)["type"] == type(node).__name__


def test_the_tree_of_a_program_can_be_written_with_all_its_nodes() -> None:
    def names(value: Any) -> set[str]:
        if isinstance(value, dict):
            return {value["node"]} | {name for member in value.values() for name in names(member)}
        return {name for item in value for name in names(item)} if isinstance(value, list) else set()

    tree = tree_json(parse(WHOLE_LANGUAGE))

    assert json.loads(json.dumps(tree)) == tree
    assert names(tree) >= {
        *("MixinSig", "MixinCall", "WhenBlock", "WhenCase", "CatchClause", "SysLogStmt", "SysAssertStmt"),
        *("ScriptBlock", "PromptBlock", "ImplicitDecl", "Doc", "DocEntry", "Namespace", "Program"),
    }
