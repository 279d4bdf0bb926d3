"""The files in schemas/: complete, documented, and what the code says."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from afl.core.types import type_table_markdown
from afl_stream.wire.avro.schema import fingerprint_of, parse_schema_text
from afl_stream.wire.shapes import RECORD_TYPES

FOLDER = Path(__file__).resolve().parents[4] / "schemas"
FILES = sorted(FOLDER.glob("*.avsc"))
VALUE = json.loads((FOLDER / "value.avsc").read_text(encoding="utf-8"))


def named_types(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every record in a schema, wherever it is defined."""
    if isinstance(node, list):
        for branch in node:
            yield from named_types(branch)
    elif isinstance(node, dict):
        if node.get("type") == "record":
            yield node
            for field in node["fields"]:
                yield from named_types(field["type"])
        else:
            for key in ("type", "items", "values"):
                yield from named_types(node.get(key))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_stands_alone_and_every_record_and_field_says_what_it_is_for(file: Path) -> None:
    schema = json.loads(file.read_text(encoding="utf-8"))

    fastavro.parse_schema(schema)

    for record in named_types(schema):
        assert record["doc"].endswith("."), record["name"]
        for field in record["fields"]:
            assert field["doc"].rstrip().endswith((".", ":", "-")), f"{record['name']}.{field['name']}"


@pytest.mark.parametrize("name", RECORD_TYPES)
def test_a_record_has_the_fields_of_its_class_in_the_same_order(name: str) -> None:
    message_class, file = RECORD_TYPES[name]
    schema = json.loads((FOLDER / f"{file}.avsc").read_text(encoding="utf-8"))

    assert schema["name"] == name == message_class.__name__
    assert schema["namespace"] == "afl.v1"
    assert {f["name"] for f in schema["fields"]} == {f.name for f in dataclasses.fields(message_class)}


@pytest.mark.parametrize("name", RECORD_TYPES)
def test_a_field_has_a_default_where_its_class_has_one(name: str) -> None:
    message_class, file = RECORD_TYPES[name]
    schema = json.loads((FOLDER / f"{file}.avsc").read_text(encoding="utf-8"))
    optional = {
        f.name
        for f in dataclasses.fields(message_class)
        if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
    }

    assert {f["name"] for f in schema["fields"] if "default" in f} == optional


def test_every_file_but_the_value_is_a_record_type() -> None:
    assert {file.stem for file in FILES} == {file for _, file in RECORD_TYPES.values()} | {"value"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_value_inside_a_file_is_the_one_of_its_own_file(file: Path) -> None:
    schema = json.loads(file.read_text(encoding="utf-8"))

    for record in named_types(schema):
        if record["name"] == "Value":
            assert record == VALUE


def test_the_readme_prints_the_table_of_types_and_names_every_file() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert type_table_markdown() in readme
    for file in FILES:
        assert file.name in readme


@pytest.mark.parametrize(
    ("canonical", "fingerprint"),
    [
        ('"null"', 0x63DD24E7CC258F8A),
        ('"boolean"', 0x9F42FC78A4D4F764),
        ('"int"', 0x7275D51A3F395C8F),
        ('"long"', 0xD054E14493F41DB7),
        ('"float"', 0x4D7C02CB3EA8D790),
        ('"double"', 0x8E7535C032AB957E),
        ('"bytes"', 0x4FC016DAC3201965),
        ('"string"', 0x8F014872634503C7),
    ],
)
def test_fingerprints_are_those_of_avros_own_tests(canonical: str, fingerprint: int) -> None:
    assert fingerprint_of(canonical) == fingerprint
    assert parse_schema_text(canonical).fingerprint == fingerprint


def test_docs_defaults_and_spacing_do_not_change_a_fingerprint() -> None:
    bare = '{"name":"x.R","type":"record","fields":[{"name":"a","type":"long"}]}'
    text = """{"type": "record", "namespace": "x", "name": "R", "doc": "d",
               "fields": [{"doc": "d", "type": {"type": "long"}, "name": "a", "default": 1}]}"""

    assert parse_schema_text(text).fingerprint == parse_schema_text(bare).fingerprint
    assert parse_schema_text(text).canonical == bare
