"""Nodes of the syntax tree are frozen values: they compare, copy, and tell what they are."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import pytest

from afl import ast

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
