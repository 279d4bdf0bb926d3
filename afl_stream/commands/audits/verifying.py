"""The command `audit verify`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from afl_stream.commands.arguments import common
from afl_stream.commands.invocation import Invocation
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.audit.verifying import Verification

_HEAD: Final = re.compile(r"\b[0-9a-f]{64}\b")
#: Findings that are shown; JSON has more.
_MOST_SHOWN: Final = 20


def _checked(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not value.startswith("@") and not _HEAD.fullmatch(value):
            raise click.BadParameter(f"{value!r:.80}: expected 64 hex digits, as `audit verify` prints them, or @FILE")
    return values


def _heads(values: Sequence[str]) -> list[str]:
    """Return the heads that are given, those of files included. Raises CommandRefused for a file without any."""
    from afl_stream.commands.refusals import CommandRefused

    heads: list[str] = []
    for value in values:
        if not value.startswith("@"):
            heads.append(value)
            continue
        found = _HEAD.findall(Path(value[1:]).read_text(encoding="utf-8", errors="replace"))
        if not found:
            raise CommandRefused(f"{value[1:]} has no head: 64 hex digits, as `afl-stream audit verify` prints them")
        heads += found
    return list(dict.fromkeys(heads))


@click.command("verify")
@click.argument("file", metavar="FILE")
@click.option(
    "--head",
    "heads",
    multiple=True,
    callback=_checked,
    metavar="HASH",
    help="A head that an earlier look printed, or @FILE with heads: the lines up to it must still be there.",
)
@common
def verify_command(invocation: Invocation, file: str, heads: tuple[str, ...]) -> ExitCode:
    """Check that the lines of FILE (JSON lines, a SQLite database, or a folder of Parquet) are as they were written.

    Each line has a hash of itself and of the line before it, so a line that was changed, deleted, inserted or moved
    breaks the chain, and its place is shown. Offsets that are missing without a line that says why are shown, too. That
    lines were cut off at the end shows only against a head that was kept elsewhere: --head.

    Ends with 0 if nothing is wrong, with 1 if something is, or if no line has a hash.

    \b
    Examples:
      afl-stream audit verify audit.jsonl
      afl-stream audit verify audit.db --json | jq -r .head >> /mnt/elsewhere/heads
      afl-stream audit verify audit.db --head @/mnt/elsewhere/heads
    """
    from afl_stream.audit.verifying import verify

    path, terminal = Path(file), invocation.terminal()
    found = verify(path, _heads(heads))
    if terminal.as_json:
        terminal.document(_document(path, found))
    else:
        for line in _sentences(path, found):
            terminal.line(line)
    return ExitCode.OK if found.is_intact else ExitCode.WORK_LEFT


def _document(path: Path, found: Verification) -> dict[str, object]:
    chain, offsets = found.chain, found.offsets
    return {
        "file": str(path),
        "intact": found.is_intact,
        "lines": chain.lines,
        "unsealed_lines": chain.unsealed,
        "torn_bytes": found.torn_bytes,
        "head": chain.head or None,
        "breaks": [broken._asdict() for broken in chain.breaks],
        "break_count": chain.break_count,
        "heads": chain.heads,
        "missing_heads": list(found.missing_heads),
        "filtered": offsets.is_filtered,
        "explained_offsets": offsets.explained,
        "missing_offsets": [
            {"topic": gap.partition.topic, "partition": gap.partition.partition, "expected_offset": gap.expected,
             "found_offset": gap.found, "line": gap.line}
            for gap in offsets.missing
        ],
        "missing_offset_count": offsets.missing_count,
    }  # fmt: skip


def _sentences(path: Path, found: Verification) -> list[str]:
    chain, offsets = found.chain, found.offsets
    said = [f"{path}: {_counted(chain.lines, 'line')}, {_verdict(found)}"]
    said += [f"  line {broken.number} {broken.problem}: {broken.line}" for broken in chain.breaks[:_MOST_SHOWN]]
    said += _more(chain.break_count)
    said += [f"  no line has the head {head}: lines were cut off or changed" for head in found.missing_heads]
    for gap in offsets.missing[:_MOST_SHOWN]:
        said.append(
            f"  line {gap.line}: offsets {gap.expected} to {gap.found - 1} of {gap.partition.topic}"
            f"[{gap.partition.partition}] are missing before it, and no line says why"
        )
    said += _more(len(offsets.missing))
    for reason, count in sorted(offsets.explained.items()):
        said.append(f"  {_counted(count, 'offset')} without a line: {_REASONS.get(reason, reason)}")
    if offsets.is_filtered:
        said.append("  an audit with a filter wrote it: missing offsets mean nothing")
    if chain.unsealed and found.is_sealed:
        said.append(
            f"  {_counted(chain.unsealed, 'line')} without a hash at the beginning: an earlier release wrote them"
        )
    elif chain.unsealed:
        said.append(
            "  `audit --file` gives each line a hash; an audit to standard output has none, nor had an earlier release"
        )
    if found.torn_bytes:
        said.append(
            f"  the last {_counted(found.torn_bytes, 'byte')} are no whole line: an audit writes it, or was killed"
        )
    said.append(f"head {chain.head or '(no line has a hash)'}")
    return said


def _verdict(found: Verification) -> str:
    if not (found.is_sealed or found.missing_heads):
        return "none with a hash: whether they were changed cannot be told"
    return "unchanged" if found.is_intact else "NOT as it was written"


_REASONS: Final = {
    "retention": "the log had dropped the records before they were read",
    "compaction": "the topic is compacted",
    "transactions": "markers that end transactions, or records of aborted ones",
    "group": "the group's offset was ahead: another member wrote the records, or the offset was moved",
}


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _more(count: int) -> list[str]:
    return [f"  ... and {count - _MOST_SHOWN:,} more"] if count > _MOST_SHOWN else []
