"""Identifiers, values and attributes."""

import uuid

import pytest

from afl.engine.types import (
    AttributeValue,
    FacetAttributes,
    ObjectType,
    VersionInfo,
    copy_value,
    generate_id,
    step_id,
    workflow_id_v7,
)


def test_generated_ids_are_random_uuid_texts() -> None:
    assert uuid.UUID(generate_id()).version == 4
    assert generate_id() != generate_id()
    assert type(step_id()) is str


def test_a_version_7_id_is_laid_out_as_rfc_9562_says() -> None:
    # The example of RFC 9562, appendix A.6: unix_ts_ms 0x017F22E279B0, rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F.
    bits = {12: 0xCC3, 62: 0x18C4DC0C0C07398F}

    assert workflow_id_v7(0x017F22E279B0, bits.__getitem__) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_version_7_ids_sort_by_their_time() -> None:
    ids = [workflow_id_v7(now_ms) for now_ms in (0, 1, 255, 256, 1_700_000_000_000, 1_700_000_000_001)]

    assert ids == sorted(ids)


@pytest.mark.parametrize(
    ("value", "hint"),
    [(True, "Boolean"), (1, "Long"), (1.5, "Double"), ("a", "String"), ([1], "List"), ({"a": 1}, "Map"), (None, "Any")],
)
def test_a_type_hint_is_inferred_from_the_value(value: object, hint: str) -> None:
    assert AttributeValue("x", value).type_hint == hint


def test_an_explicit_type_hint_is_kept() -> None:
    assert AttributeValue("x", 1, "Int").type_hint == "Int"


def test_an_attribute_is_readable_by_item_as_well() -> None:
    attribute = AttributeValue("x", 15)

    assert (attribute["name"], attribute["value"], attribute["type_hint"]) == ("x", 15, "Long")
    with pytest.raises(KeyError, match="other"):
        attribute["other"]


def test_an_absent_attribute_and_a_null_one_read_as_none() -> None:
    attributes = FacetAttributes()
    attributes.set_param("x", None)

    assert attributes.get_param("x") is None
    assert attributes.get_param("y") is None
    assert "x" in attributes.params
    assert "y" not in attributes.params


def test_merging_fills_missing_params_and_overwrites_returns() -> None:
    mine, other = FacetAttributes(), FacetAttributes()
    mine.set_param("a", 1)
    mine.set_return("r", 1)
    other.set_param("a", 2)
    other.set_param("b", 2)
    other.set_return("r", 2)

    mine.merge(other)

    assert (mine.get_param("a"), mine.get_param("b"), mine.get_return("r")) == (1, 2, 2)


def test_only_blocks_are_blocks_and_only_calls_and_yields_are_statements() -> None:
    kinds = {value for name, value in vars(ObjectType).items() if name.isupper() and isinstance(value, str)}

    assert len(kinds) == 13
    assert {kind for kind in kinds if ObjectType.is_block(kind)} == {"AndThen", "AndMap", "AndMatch", "Block"}
    assert {kind for kind in kinds if ObjectType.is_statement(kind)} == {"VariableAssignment", "YieldAssignment"}


def test_the_versions_are_those_that_the_runtime_writes() -> None:
    assert VersionInfo() == VersionInfo(workflow_version="1.0", step_schema_version="1.0", runtime_version="0.1.0")


def test_a_copied_value_shares_nothing_that_can_change() -> None:
    inner, members = [2], {1}
    original = {"a": [1, {"b": inner}], "c": members}
    copied = copy_value(original)

    assert copied == original
    inner.append(3)
    members.add(2)
    assert copied == {"a": [1, {"b": [2]}], "c": {1}}
