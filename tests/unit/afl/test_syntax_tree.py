"""Nodes of the syntax tree are frozen values: they compare, copy, and tell what they are."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields, replace
from uuid import UUID

import pytest

from afl import ast, emit_dict, emit_json, parse

_PLACE = ast.SourceLocation(1, 2, 1, 9, "file://a.afl")
_CALL = ast.CallExpr("a.F", [ast.NamedArg("x", ast.Literal(1, "integer"))], location=_PLACE)


@pytest.mark.parametrize("copied", [copy.copy(_CALL), copy.deepcopy(_CALL), pickle.loads(pickle.dumps(_CALL))])
def test_a_copy_is_equal_and_knows_its_place(copied: ast.CallExpr) -> None:
    assert copied == _CALL
    assert copied is not _CALL
    assert copied.location == _PLACE


def test_places_and_ids_do_not_count_in_comparisons_and_classes_do() -> None:
    assert ast.NamedArg("x", ast.Literal(1, "integer"), node_id="7") == _CALL.args[0]
    assert ast.MixinCall("a.F") != ast.MixinSig("a.F")


def test_a_node_cannot_be_changed_but_replaced() -> None:
    for name in ("name", "location", "unknown"):
        with pytest.raises(FrozenInstanceError, match=f"assign to field '{name}'"):
            setattr(_CALL, name, "b")
    with pytest.raises(FrozenInstanceError, match="delete field 'name'"):
        del _CALL.name

    assert replace(_CALL, name="b").args is _CALL.args


def test_a_node_tells_what_it_is_and_has_no_hash() -> None:
    assert repr(_CALL.args[0]) == "NamedArg(name='x', value=Literal(value=1, kind='integer'))"
    with pytest.raises(TypeError, match="unhashable"):
        hash(_CALL)


def test_lists_that_are_not_given_are_each_nodes_own() -> None:
    first, second = ast.Block(), ast.Block()

    assert first.steps == second.steps == []
    assert first.steps is not second.steps


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(TypeError, match="value"):
        ast.NamedArg("x")  # type: ignore[call-arg]  # what is tested


def nodes_of(node: object) -> list[ast.ASTNode]:
    """Return a node and all that are under it."""
    if isinstance(node, list):
        return [found for item in node for found in nodes_of(item)]
    if not isinstance(node, ast.ASTNode):
        return []
    parts = [getattr(node, field.name) for field in fields(node) if field.compare]
    return [node, *(found for part in parts for found in nodes_of(part))]


_SOURCE = "namespace n { facet F(x: Long) workflow W() => (o: [Long]) andThen { a = F(x = -1) yield W(o = [a.x]) } }"


def test_every_parsed_node_has_an_id_of_its_own_that_stays() -> None:
    nodes = nodes_of(parse(_SOURCE))
    ids = [node.node_id for node in nodes]

    assert len(nodes) > 20
    assert [str(UUID(identity)) for identity in ids] == ids
    assert len(set(ids)) == len(ids)
    assert [node.node_id for node in nodes] == ids
    assert set(ids).isdisjoint(node.node_id for node in nodes_of(parse(_SOURCE)))


def test_threads_that_ask_at_once_are_told_one_id() -> None:
    nodes = nodes_of(parse(_SOURCE * 20))
    with ThreadPoolExecutor(4) as threads:
        reported = list(threads.map(lambda _: [node.node_id for node in nodes], range(4)))

    assert reported == [reported[0]] * 4


def test_ids_that_were_drawn_are_never_emitted_and_given_ones_are() -> None:
    before = emit_json(parse(_SOURCE))
    program = parse(_SOURCE)
    drawn = {node.node_id for node in nodes_of(program)}

    assert emit_json(program) == before
    for copied in (copy.deepcopy(program), pickle.loads(pickle.dumps(program)), replace(program)):
        assert emit_json(copied) == before
        assert copied.node_id in drawn
    assert emit_dict(replace(program, node_id="mine"))["id"] == "mine"


def test_a_given_id_is_kept() -> None:
    assert ast.TypeRef("Long", node_id="7").node_id == "7"
    assert copy.deepcopy(ast.TypeRef("Long", node_id="7")).node_id == "7"
    assert UUID(ast.TypeRef("Long").node_id)
