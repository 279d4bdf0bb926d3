"""Tables of the commands: in columns where they fit, on several lines where not, ids whole in any terminal."""

import pytest
from rich.cells import cell_len

from afl_stream.commands.tables import TableLayout

_ID = "01a2249b-47d8-7b0e-9a62-922c6fd4938d"
_COLUMNS = ("workflow id", "workflow", "status", "steps", "")
_ROWS = [(_ID, "shop.Checkout", "COMPLETED", "12", ""), ("w1", "shop.Refund", "ERROR", "3", "no route to a host " * 6)]


def layout(width: int) -> TableLayout:
    return TableLayout(_COLUMNS, _ROWS, right=("steps",), whole=("workflow id",), width=width)


def test_what_fits_stands_in_columns_with_numbers_to_the_right() -> None:
    table = TableLayout(_COLUMNS, [(*row[:4], "") for row in _ROWS], right=("steps",), whole=("workflow id",), width=80)

    assert table.heading() == [
        "workflow id                            workflow        status      steps",
        "─" * 72,
    ]
    assert table.rows() == [
        f"{_ID}   shop.Checkout   COMPLETED      12",
        f"{'w1':<36}   shop.Refund     ERROR           3",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_an_id_is_a_line_of_its_own_where_the_table_does_not_fit(width: int) -> None:
    lines = layout(width).rows()

    assert [line for line in lines if line in (_ID, "w1")] == [_ID, "w1"]
    assert max(cell_len(line) for line in lines) <= width
    assert " ".join(" ".join(lines).split()).endswith(("no route to a host " * 6).strip())


@pytest.mark.parametrize("width", [20, 30])
def test_an_id_longer_than_the_terminal_is_not_broken(width: int) -> None:
    assert _ID in layout(width).rows()


def test_a_table_without_ids_is_folded_between_words() -> None:
    table = TableLayout(("setting", "value"), [("a.setting", "one two three four five")], width=30)

    assert table.rows() == ["a.setting   one two three four", "            five"]


def test_wide_letters_take_two_columns() -> None:
    table = TableLayout(("name", "n"), [("注文", "1"), ("abcd", "2")], width=80)

    assert table.rows() == ["注文   1", "abcd   2"]


def test_a_table_of_nothing_has_its_heading() -> None:
    assert TableLayout(("name", "n"), [], width=80).heading() == ["name   n", "────────"]
