"""The JSON that a program is compiled to."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from afl import ast
from afl.compiler import compile_text
from afl.emitter import NODE_ID_NAMESPACE, JSONEmitter, derive_id, emit_dict, emit_json, to_text
from afl.parser import AFLParser, parse
from afl.source import CompilerInput, FileOrigin, MavenOrigin, MongoDBOrigin, SourceEntry

from .programs import EVERYTHING, ROOMS, WHOLE_LANGUAGE

#: Types of the nodes that have an id.
IDENTIFIED = {
    *("Program", "Namespace", "FacetDecl", "EventFacetDecl", "WorkflowDecl", "SchemaDecl"),
    *("ImplicitDecl", "AndThenBlock", "StepStmt", "YieldStmt", "CallExpr", "SysLogStmt", "SysAssertStmt"),
    *("CatchClause", "PromptBlock", "ScriptBlock"),
}


A = {"type": "InputRef", "path": ["a"]}
B = {"type": "InputRef", "path": ["b"]}


def nodes(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "type" in value and isinstance(value["type"], str):
            yield value
        for member in value.values():
            yield from nodes(member)
    elif isinstance(value, list):
        for item in value:
            yield from nodes(item)


def without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_ids(member) for name, member in value.items() if name != "id"}
    return [without_ids(item) for item in value] if isinstance(value, list) else value


def test_a_small_program_has_the_shape_of_the_reference() -> None:
    document = without_ids(compile_text(ROOMS, include_locations=False).program_json)

    assert json.dumps(document) == json.dumps(
        {
            "type": "Program",
            "declarations": [
                {
                    "type": "Namespace",
                    "name": "cold.store",
                    "declarations": [
                        {
                            "type": "EventFacetDecl",
                            "name": "Temp",
                            "params": [{"name": "room", "type": "Int"}],
                            "returns": [{"name": "c", "type": "Double"}],
                        },
                        {
                            "type": "WorkflowDecl",
                            "name": "Watch",
                            "params": [
                                {"name": "rooms", "type": {"type": "ArrayType", "elementType": "Int"}},
                                {"name": "max", "type": "Double", "default": {"type": "Double", "value": 4.5}},
                            ],
                            "returns": [{"name": "hot", "type": {"type": "ArrayType", "elementType": "Int"}}],
                            "body": {
                                "type": "AndThenBlock",
                                "foreach": {
                                    "type": "ForeachClause",
                                    "variable": "r",
                                    "iterable": {"type": "InputRef", "path": ["rooms"]},
                                },
                                "steps": [
                                    {
                                        "type": "StepStmt",
                                        "name": "t",
                                        "call": {
                                            "type": "CallExpr",
                                            "target": "Temp",
                                            "args": [{"name": "room", "value": {"type": "InputRef", "path": ["r"]}}],
                                        },
                                    }
                                ],
                                "yield": {
                                    "type": "YieldStmt",
                                    "call": {
                                        "type": "CallExpr",
                                        "target": "Watch",
                                        "args": [
                                            {
                                                "name": "hot",
                                                "value": {
                                                    "type": "ArrayLiteral",
                                                    "elements": [{"type": "InputRef", "path": ["r"]}],
                                                },
                                            }
                                        ],
                                    },
                                },
                            },
                        },
                    ],
                }
            ],
        }
    )


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ('"a"', {"type": "String", "value": "a"}),
        ("7", {"type": "Int", "value": 7}),
        ("7.0", {"type": "Double", "value": 7.0}),
        ("true", {"type": "Boolean", "value": True}),
        ("null", {"type": "Null"}),
        ("$.a.b", {"type": "InputRef", "path": ["a", "b"]}),
        ("s.a", {"type": "StepRef", "path": ["s", "a"]}),
        ("v", {"type": "StepRef", "path": ["v"]}),
        ("-1", {"type": "UnaryExpr", "operator": "-", "operand": {"type": "Int", "value": 1}}),
        (
            "1 % 2",
            {
                "type": "BinaryExpr",
                "operator": "%",
                "left": {"type": "Int", "value": 1},
                "right": {"type": "Int", "value": 2},
            },
        ),
        *(
            (f"$.a {operator} $.b", {"type": "BinaryExpr", "operator": operator, "left": A, "right": B})
            for operator in ("==", "!=", "<", "<=", ">", ">=", "&&", "||", "in", "contains", "startsWith", "endsWith")
        ),
        ("$.a not  in $.b", {"type": "BinaryExpr", "operator": "not in", "left": A, "right": B}),
        ("!($.a)", {"type": "UnaryExpr", "operator": "!", "operand": A}),
        ("1 ++ null", {"type": "ConcatExpr", "operands": [{"type": "Int", "value": 1}, {"type": "Null"}]}),
        ("#{a: 1}", {"type": "MapLiteral", "entries": [{"key": "a", "value": {"type": "Int", "value": 1}}]}),
        (
            "[][0]",
            {
                "type": "IndexExpr",
                "target": {"type": "ArrayLiteral", "elements": []},
                "index": {"type": "Int", "value": 0},
            },
        ),
    ],
)
def test_each_expression_has_its_node(text: str, node: dict[str, Any]) -> None:
    default = parse(f"facet F(x: Json = {text})").facets[0].sig.params[0].default
    assert default is not None

    assert json.dumps(emit_dict(default)) == json.dumps(node)


def test_absent_parts_are_left_out_and_empty_returns_and_fields_are_kept() -> None:
    document = without_ids(emit_dict(parse("namespace a { schema S { } facet F() => () andThen { } }"), False))

    assert document["declarations"][0]["declarations"] == [
        {"type": "FacetDecl", "name": "F", "returns": [], "body": {"type": "AndThenBlock"}},
        {"type": "SchemaDecl", "name": "S", "fields": []},
    ]
    assert without_ids(emit_dict(parse(""), False)) == {"type": "Program"}


def test_several_clauses_and_yields_are_lists_and_one_stands_alone() -> None:
    text = "facet F() andThen { s = G() andThen { yield G() yield F() } } andThen { t = G() andThen { } andThen { } }"
    first, second = emit_dict(parse(text))["declarations"][0]["body"]

    assert [item["call"]["target"] for item in first["steps"][0]["body"]["yields"]] == ["G", "F"]
    assert [item["type"] for item in second["steps"][0]["body"]] == ["AndThenBlock", "AndThenBlock"]


def test_declarations_stand_by_kind_and_in_source_order_within_one() -> None:
    text = "workflow W() facet B() event facet E() facet A() namespace n { schema S { } workflow V() facet C() use n }"
    document = emit_dict(parse(text))

    assert [item["name"] for item in document["declarations"]] == ["n", "B", "A", "E", "W"]
    assert document["declarations"][0]["uses"] == ["n"]
    assert [item["name"] for item in document["declarations"][0]["declarations"]] == ["C", "V", "S"]


def test_openings_of_a_namespace_stay_apart_because_each_has_its_own_imports() -> None:
    document = emit_dict(parse("namespace a { use b facet F() } namespace b { } namespace a { facet G() }"))

    assert [(item["name"], item.get("uses")) for item in document["declarations"]] == [
        ("a", ["b"]),
        ("b", None),
        ("a", None),
    ]


def test_every_identified_node_has_an_id_of_its_own_and_a_place() -> None:
    twice = """namespace a { facet F() facet F() andThen { s = F() s = F() sys.log() sys.log() sys.assert(1)
        sys.assert(1) } implicit x = F() implicit x = F() } namespace a { }"""
    for text in (EVERYTHING, WHOLE_LANGUAGE, twice):
        found = list(nodes(emit_dict(parse(text))))
        identified = [node for node in found if node["type"] in IDENTIFIED]

        assert all("id" in node and "location" in node for node in identified)
        assert not any("id" in node or "location" in node for node in found if node["type"] not in IDENTIFIED)
        assert len({node["id"] for node in identified}) == len(identified)


def test_ids_depend_on_structure_not_on_place_source_or_neighbours() -> None:
    alone = emit_dict(parse("namespace a { facet F() andThen { s = G(x = 1) } }"))
    moved = AFLParser().parse(
        "\n\n namespace a { facet X() }\nnamespace a {\n facet F() andThen {\n\n s = G(x = 2) } }", source_id="other"
    )

    def ids(document: dict[str, Any], name: str) -> list[str]:
        (found,) = (node for node in nodes(document) if node.get("name") == name and node["type"] == "FacetDecl")
        return [node["id"] for node in nodes(found) if "id" in node]

    assert ids(alone, "F") == ids(emit_dict(moved), "F")


def test_ids_are_name_based_uuids() -> None:
    derived = derive_id("a.b/FacetDecl:F")

    assert derived == str(uuid.uuid5(uuid.UUID(bytes=NODE_ID_NAMESPACE), "a.b/FacetDecl:F"))
    assert uuid.UUID(derived).version == 5


def test_compiling_twice_gives_the_same_bytes() -> None:
    for text in (EVERYTHING, WHOLE_LANGUAGE):
        assert emit_json(parse(text)) == emit_json(parse(text))


def test_an_id_that_a_node_brings_along_is_kept() -> None:
    assert emit_dict(ast.Program(node_id="mine")) == {"type": "Program", "id": "mine"}


def test_locations_are_one_based_with_an_exclusive_end() -> None:
    document = emit_dict(parse("\n  facet F()"))

    assert document["declarations"][0]["location"] == {"line": 2, "column": 3, "endLine": 2, "endColumn": 12}


def test_without_locations_there_are_none() -> None:
    for text in (EVERYTHING, WHOLE_LANGUAGE):
        assert not any("location" in node for node in nodes(emit_dict(parse(text), include_locations=False)))


@pytest.mark.parametrize(
    ("origin", "provenance"),
    [
        (FileOrigin("a.afl"), {"type": "file", "path": "a.afl"}),
        (MongoDBOrigin("c1", "Flow"), {"type": "mongodb", "collectionId": "c1", "displayName": "Flow"}),
        (MavenOrigin("g", "a", "1"), {"type": "maven", "groupId": "g", "artifactId": "a", "version": "1"}),
        (
            MavenOrigin("g", "a", "1", "src"),
            {"type": "maven", "groupId": "g", "artifactId": "a", "version": "1", "classifier": "src"},
        ),
    ],
)
def test_provenance_names_the_origin(
    origin: FileOrigin | MongoDBOrigin | MavenOrigin, provenance: dict[str, str]
) -> None:
    program, registry = AFLParser().parse_sources(CompilerInput([SourceEntry("facet F()", origin)]))
    document = JSONEmitter(include_provenance=True, source_registry=registry).emit_dict(program)

    location = document["declarations"][0]["location"]
    assert (location["sourceId"], location["provenance"]) == (origin.to_source_id(), provenance)


def test_the_text_is_what_the_library_would_write() -> None:
    values: list[Any] = [
        emit_dict(parse(EVERYTHING)),
        emit_dict(parse(WHOLE_LANGUAGE)),
        {},
        [],
        {"a": [], "b": {}, "c": [1, [2.5, None, True]], 'é\n"': "日\x01", "big": 10**30},
    ]
    for value in values:
        assert to_text(value, 2) == json.dumps(value, indent=2, ensure_ascii=False)
        assert json.loads(to_text(value, None)) == value
        assert "\n" not in to_text(value, None)


def test_what_is_no_node_is_refused() -> None:
    with pytest.raises(ValueError, match="UsesDecl cannot be emitted"):
        emit_dict(ast.UsesDecl("a"))
