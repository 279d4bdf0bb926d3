"""Event facets as tools: one each, with schemas that follow the types of the language."""

from __future__ import annotations

import pytest

from afl.claude.answer_checks import answer_problem
from afl.runtime.agent import ToolDefinition, tool_definitions
from tests.unit.claude.helpdesk import compiled


def tools() -> dict[str, ToolDefinition]:
    return {tool.name: tool for tool in tool_definitions(compiled())}


def test_a_program_has_a_tool_for_each_event_facet_and_nothing_else_has() -> None:
    assert list(tools()) == ["Triage", "Count", "Find", "Ping"]
    assert tool_definitions(None) == []
    assert tool_definitions({"type": "Program", "declarations": []}) == []


def test_a_tool_takes_the_returns_of_its_facet_and_knows_its_parameters() -> None:
    count = tools()["Count"]

    assert count.input_schema == {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "share": {"type": "number"}},
        "required": ["count", "share"],
    }
    assert count.param_schema == {
        "type": "object",
        "properties": {"words": {"type": "array", "items": {"type": "string"}}},
        "required": ["words"],
    }
    assert (count.param_names, count.return_names) == (["words"], ["count", "share"])
    assert count.facet_name == "support.Count"
    assert count.prompt_block is None


def test_comments_of_the_program_describe_the_tool() -> None:
    triage = tools()["Triage"]

    assert triage.description == (
        "Sorts a ticket into a queue.\n\nsupport.Triage(ticket: String, tone: String) => (queue: String)"
    )
    assert triage.input_schema["properties"]["queue"] == {"type": "string", "description": "the queue's name"}
    assert triage.param_schema["properties"]["ticket"] == {"type": "string", "description": "what was written"}
    assert triage.param_schema["required"] == ["ticket"]
    assert triage.prompt_block is not None
    assert triage.prompt_block["model"] == "small-model"


def test_schemas_of_the_program_become_objects_within_objects() -> None:
    person = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
        "description": "Somebody who wrote to us.",
    }
    note = {
        "type": "object",
        "properties": {"text": {"type": "string"}, "by": person},
        "required": ["text", "by"],
        "additionalProperties": False,
    }
    find = tools()["Find"].input_schema

    assert find["properties"] == {"person": person, "notes": {"type": "array", "items": note}, "extra": {}}
    assert find["required"] == ["person", "notes"]


@pytest.mark.parametrize(
    ("declared", "schema"),
    [
        ("Long", {"type": "integer"}),
        ("Int", {"type": "integer"}),
        ("Double", {"type": "number"}),
        ("String", {"type": "string"}),
        ("Boolean", {"type": "boolean"}),
        ("List", {"type": "array"}),
        ("Map", {"type": "object"}),
        ("Mystery", {"type": "string"}),
        ({"type": "ArrayType", "elementType": "Long"}, {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_every_type_has_its_json_type(declared: object, schema: dict[str, object]) -> None:
    facet = {"type": "EventFacetDecl", "name": "F", "returns": [{"name": "x", "type": declared}]}
    (tool,) = tool_definitions({"type": "Program", "declarations": [facet]})

    assert tool.input_schema["properties"] == {"x": schema}


def test_what_is_nothing_by_default_may_be_said_to_be_nothing() -> None:
    (tool,) = tool_definitions(
        compiled('namespace a { event facet F() => (note: String = null, by: [Long] = null, tone: String = "calm") }')
    )

    assert tool.input_schema["properties"] == {
        "note": {"type": ["string", "null"]},
        "by": {"type": ["array", "null"], "items": {"type": "integer"}},
        "tone": {"type": "string"},
    }
    assert answer_problem({"note": None, "by": None}, tool.input_schema) is None
    assert answer_problem({"note": 1}, tool.input_schema) == "note: string or null wanted, found 1"
    assert answer_problem({"tone": None}, tool.input_schema) == "tone: string wanted, found null"


def test_a_schema_that_holds_itself_ends_where_it_comes_round() -> None:
    tree = {"type": "SchemaDecl", "name": "Tree", "fields": [{"name": "left", "type": "Tree"}]}
    facet = {"type": "EventFacetDecl", "name": "Grow", "returns": [{"name": "tree", "type": "Tree"}]}
    (tool,) = tool_definitions({"declarations": [{"type": "Namespace", "name": "g", "declarations": [tree, facet]}]})

    assert tool.input_schema["properties"]["tree"]["properties"] == {"left": {"type": "object"}}


def test_names_are_such_as_tools_may_have_and_no_two_are_the_same() -> None:
    text = "".join(f"namespace {name} {{ event facet Pay() }}\n" for name in ("a.b", "a_b", "c"))

    assert [(tool.name, tool.facet_name) for tool in tool_definitions(compiled(text))] == [
        ("a_b_Pay", "a.b.Pay"),
        ("a_b_Pay_2", "a_b.Pay"),
        ("c_Pay", "c.Pay"),
    ]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"person": {"name": "Ann", "age": 3}, "notes": []}, None),
        ({"person": {"name": "Ann", "age": 3}, "notes": [], "extra": {"any": [1, None]}, "more": 1}, None),
        ({"notes": []}, "the answer: person missing"),
        ({"person": "Ann", "notes": []}, 'person: object wanted, found "Ann"'),
        ({"person": {"name": "Ann", "age": True}, "notes": []}, "person.age: integer wanted, found true"),
        ({"person": {"name": "Ann", "age": 2**63}, "notes": []}, f"person.age: integer wanted, found {2**63}"),
        (
            {"person": {"name": "Ann", "age": 3, "x": 1}, "notes": []},
            "person: x is not declared; there is name, age",
        ),
        (
            {"person": {"name": "Ann", "age": 3}, "notes": [{"text": "t", "by": {"name": 1, "age": 2}}]},
            "notes[0].by.name: string wanted, found 1",
        ),
    ],
)
def test_an_answer_fits_its_schema_or_it_is_said_where_not(given: dict[str, object], problem: str | None) -> None:
    assert answer_problem(given, tools()["Find"].input_schema) == problem


def test_a_tool_of_ones_own_may_list_what_is_allowed() -> None:
    assert answer_problem("red", {"enum": ["red", "green"]}) is None
    assert answer_problem("blue", {"enum": ["red", "green"]}, "x") == (
        'x: one of ["red", "green"] wanted, found "blue"'
    )
