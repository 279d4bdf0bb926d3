"""Schemas that refer to others are made one text that Avro reads."""

import json
from typing import Any

import fastavro.schema
import pytest

from afl_stream.errors import Unreadable
from afl_stream.registry.references import inlined

MONEY = json.dumps({"type": "record", "name": "x.Money", "fields": [{"name": "cents", "type": "long"}]})
LINE = json.dumps(
    {
        "type": "record",
        "name": "x.Line",
        "fields": [{"name": "price", "type": "x.Money"}, {"name": "fee", "type": "Money"}],
    }
)
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "x",
        "fields": [
            {"name": "lines", "type": {"type": "array", "items": "Line"}},
            {"name": "total", "type": ["null", "x.Money"]},
        ],
    }
)


def test_each_schema_stands_where_it_is_mentioned_first() -> None:
    whole = inlined(ORDER, {"x.Line": LINE, "x.Money": MONEY})

    named: dict[str, dict[Any, Any]] = {}
    fastavro.schema.parse_schema(json.loads(whole), named)
    assert set(named) == {"x.Order", "x.Line", "x.Money"}
    assert whole.count('"cents"') == 1


def test_what_is_not_json_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="refers to others cannot be read"):
        inlined(ORDER, {"x.Line": "{"})
