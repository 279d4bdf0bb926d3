"""Frozen dataclasses that are made cheaply behave as those of the library."""

import copy
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from afl.core.frozen import frozen


@frozen
class Place:
    """A place."""

    line: int
    names: list[str] = field(default_factory=list, repr=False)
    column: int = 1


@frozen
class Spot:
    """A class with the same fields."""

    line: int
    names: list[str] = field(default_factory=list, repr=False)
    column: int = 1


@frozen
class Named:
    """A class without a list."""

    name: str
    number: int = 0


def test_fields_have_their_defaults_and_lists_of_their_own() -> None:
    one, other = Place(3), Place(3)

    assert (one.line, one.names, one.column) == (3, [], 1)
    assert one.names is not other.names
    assert [item.name for item in fields(one)] == ["line", "names", "column"]


def test_equal_fields_of_one_class_make_equals() -> None:
    assert Place(3, ["a"]) == Place(3, ["a"])
    assert Place(3) != Place(4)
    spot: object = Spot(3)
    assert Place(3) != spot
    assert len({Named("a"), Named("a", 0), Named("b")}) == 2


def test_it_is_shown_as_it_is_made() -> None:
    assert repr(Place(3, ["secret"])) == "Place(line=3, column=1)"


def test_no_field_is_set_or_deleted() -> None:
    place = Place(3)

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'line'"):
        place.line = 4  # type: ignore[misc]  # that is refused
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'line'"):
        del place.line


def test_copies_have_the_same_fields() -> None:
    place = Place(3, ["a"])

    assert replace(place, line=4) == Place(4, ["a"])
    assert copy.deepcopy(place) == place
    assert pickle.loads(pickle.dumps(place)) == place


def test_a_call_that_fits_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        Place(3, size=4)  # type: ignore[call-arg]  # that is refused


def test_patterns_take_it_apart() -> None:
    match Named("a", 2):
        case Named(name, number):
            assert (name, number) == ("a", 2)
