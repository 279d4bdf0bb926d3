"""How the audit is shown in a terminal: a bar while events are answered, and a table by licence at the end."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples.licence_audit.distributions import LicenceTotal


def progress_bar(console: Console) -> Progress:
    """Return a bar of answered events, out of those that were asked so far."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("events"),
        TimeElapsedColumn(),
        console=console,
    )


def totals_table(totals: Sequence[LicenceTotal]) -> Table:
    """One row for each licence, and one for all."""
    table = Table(title="Installed distributions by licence", show_footer=True)
    table.add_column("licence", footer="all")
    for heading, footer in (
        ("distributions", f"{sum(total['distributions'] for total in totals):,}"),
        ("files", f"{sum(total['files'] for total in totals):,}"),
        ("size", size_text(sum(total["bytes"] for total in totals))),
    ):
        table.add_column(heading, footer=footer, justify="right")
    for total in totals:
        table.add_row(total["licence"], f"{total['distributions']:,}", f"{total['files']:,}", size_text(total["bytes"]))
    return table


def size_text(size_bytes: int) -> str:
    """Return a size as people read it, in decimal units."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
