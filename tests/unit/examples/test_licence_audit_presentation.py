"""The audit's table."""

import io

import pytest
from rich.console import Console

from examples.licence_audit.distributions import LicenceTotal
from examples.licence_audit.presentation import size_text, totals_table


def test_the_table_has_a_row_for_each_licence_and_one_for_all() -> None:
    totals: list[LicenceTotal] = [
        {"licence": "MIT", "distributions": 18, "files": 2774, "bytes": 1_500_000},
        {"licence": "BSD-3-Clause", "distributions": 1, "files": 24, "bytes": 500},
    ]
    out = io.StringIO()

    Console(file=out, width=80).print(totals_table(totals))

    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.getvalue().splitlines() if "│" in line]
    assert rows == [
        ["MIT", "18", "2,774", "1.5 MB"],
        ["BSD-3-Clause", "1", "24", "500 B"],
        ["all", "19", "2,798", "1.5 MB"],
    ]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (139_791_109, "139.8 MB"), (2_500_000_000, "2.5 GB")],
)
def test_a_size_is_written_in_the_unit_that_fits(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text
