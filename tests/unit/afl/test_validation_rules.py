"""Every rule of the table is broken by its example, exactly once and in the right place, and kept by its near miss."""

import pytest

from afl.compiler import check_texts
from afl.validation import RULES


@pytest.mark.parametrize("key", list(RULES))
def test_the_example_of_a_rule_breaks_it_once_at_the_marked_place(key: str) -> None:
    rule = RULES[key]
    start, end = rule.example.index("«"), rule.example.index("»") - 1
    text = rule.example.replace("«", "").replace("»", "")

    found = [
        (item.code, item.severity, item.line, item.column, item.end_line, item.end_column)
        for item in check_texts([(text, None)]).diagnostics
    ]

    assert found == [(rule.code, rule.severity, *_place(text, start), *_place(text, end))]


@pytest.mark.parametrize("key", list(RULES))
def test_the_near_miss_of_a_rule_is_clean(key: str) -> None:
    assert [item.headline() for item in check_texts([(RULES[key].near_miss, None)]).diagnostics] == []


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
