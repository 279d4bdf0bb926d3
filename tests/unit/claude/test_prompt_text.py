"""Prompt templates: placeholders, braces, and how values read."""

from __future__ import annotations

import pytest

from afl.claude.prompt_text import fill_prompt


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("no placeholder", "no placeholder"),
        ("{name}, {name}", "Ann, Ann"),
        ("{unknown} stays", "{unknown} stays"),
        ("{{name}} {{}}", "{name} {}"),
        ("{{{name}}}", "{Ann}"),
        ("{not a name} {}", "{not a name} {}"),
        ("{none}|{yes}|{half}|{whole}", "|true|0.5|2.0"),
        ("{items} {map}", '[1,"日本"] {"a":null}'),
        ("{brace}", "{name}"),
    ],
)
def test_a_placeholder_becomes_the_value_as_concatenation_renders_it(template: str, filled: str) -> None:
    values = {
        "name": "Ann",
        "none": None,
        "yes": True,
        "half": 0.5,
        "whole": 2.0,
        "items": [1, "日本"],
        "map": {"a": None},
        "brace": "{name}",
    }

    assert fill_prompt(template, values) == filled
