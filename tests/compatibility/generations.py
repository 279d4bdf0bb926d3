"""The places of the fixtures."""

from __future__ import annotations

import base64
import difflib
import json
import re
from itertools import islice
from pathlib import Path
from typing import Final

from tests.compatibility.dumps import restore_sql
from tests.compatibility.world import OPENED_MS, StoreOpener, World, program_of, settings

FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
GENERATION_1: Final = FIXTURES / "generation_1"
#: How what zlib packs begins: in hex digits, and in base 64.
_PACKED: Final = re.compile(r"78(?:01|5e|9c|da)|\"e(?:A|F|J|N)[A-Za-z0-9+/]{20}")
#: The headers of a schema's record: the first one's name behind its length.
_SCHEMA_HEADERS: Final = re.compile(rf"X'0f000000{b'afl_fingerprint'.hex()}[0-9a-f]*'", re.IGNORECASE)
#: A record whose value is the text of a schema, under the digest of it.
_SCHEMA_START: Final = b'{\n  "type": "record"'.hex()
_SCHEMA: Final = re.compile(rf"CAST\('([0-9a-f]{{64}})' AS BLOB\), X'({_SCHEMA_START}[0-9a-f]*)'")
#: A schema's record in a comparable log: what stands before its offset, and between that and its time.
_SCHEMA_LINE: Final = re.compile(
    r"""(INSERT INTO "records" VALUES\(\d+, \d+), \d+(, CAST\('(?:the schema|[0-9a-f]{64})' AS BLOB\), .*), \d+\);$"""
)
#: How much of a difference is shown.
_SHOWN_LINES: Final = 20
_SHOWN_CHARS: Final = 400


def text_of(name: str, generation: int = 1) -> str:
    """Return a file of a generation."""
    return (FIXTURES / f"generation_{generation}" / name).read_text(encoding="utf-8")


def restored_log(folder: Path) -> None:
    """Put the stored log where a world has its own."""
    restore_sql(text_of("log.sql"), settings(folder).log_path)


def reopened(folder: Path, open_store: StoreOpener) -> World:
    """Return a world on files that are there, a minute after they were begun."""
    return World(folder, open_store, now_ms=OPENED_MS)


def packs_as_before() -> bool:
    """Whether this Python's zlib packs the same text into the same bytes as the one that packed the fixtures did."""
    line = json.loads(text_of("programs/desk.program.json"))
    return program_of(text_of("programs/desk.afl")).annotations == base64.b64decode(line["annotations"])


def without_dead_letters(log: str) -> str:
    """Leave out the records whose headers have had other names before."""
    names = (b"afl_dlq_".hex(), b"afl.dlq.".hex())
    return "\n".join(line for line in log.splitlines() if not any(name in line for name in names))


def without_schema_headers(log: str) -> str:
    """Leave out the headers of schemas, which had none before."""
    return _SCHEMA_HEADERS.sub("NULL", log)


def without_documentation(log: str) -> str:
    """Leave the documentation out of the records that are schemas, and what names them by their whole text.

    It is for people: a schema is known by what is left of it without that.
    """
    return "\n".join(_SCHEMA.sub(_undocumented, line) for line in log.splitlines())


def _undocumented(found: re.Match[str]) -> str:
    schema = json.loads(bytes.fromhex(found[2]))
    plain = json.dumps(_without_docs(schema)).encode().hex()
    return f"CAST('the schema' AS BLOB), X'{plain}'"


def _without_docs(part: object) -> object:
    if isinstance(part, dict):
        return {name: _without_docs(value) for name, value in part.items() if name != "doc"}
    return [_without_docs(value) for value in part] if isinstance(part, list) else part


def comparable(log: str) -> str:
    """Leave out of a log what a release may add to it: topics of dead letters, headers and documentation of schemas."""
    return without_documentation(without_schema_headers(without_dead_letters(log)))


def with_schemas_of(log: str, other: str) -> str:
    """Leave out of a log the schemas that another one lacks, and the places and times of all of them.

    A release may announce more of them, and sooner. Both logs are comparable ones.
    """
    known = {_placeless(line) for line in other.splitlines() if _SCHEMA_LINE.match(line)}
    schemas = {_placeless(line) for line in log.splitlines() if _SCHEMA_LINE.match(line)}
    others = [line for line in log.splitlines() if not _SCHEMA_LINE.match(line)]
    return "\n".join([*others, *sorted(schemas & known)])


def _placeless(line: str) -> str:
    return _SCHEMA_LINE.sub(r"\1, -\2, -);", line)


def differences(written: str, kept: str) -> list[str]:
    """How a file that is written now differs from the one that is kept: the first lines of each, cut short.

    Where zlib packs otherwise than it did, lines with packed bytes are passed over.
    """
    now, before = _comparable(written), _comparable(kept)
    found = difflib.unified_diff(before, now, "kept", "written", lineterm="", n=0)
    return [f"{line[:_SHOWN_CHARS]}{'...' * (len(line) > _SHOWN_CHARS)}" for line in islice(found, _SHOWN_LINES)]


def _comparable(text: str) -> list[str]:
    lines = text.splitlines()
    return lines if packs_as_before() else [line for line in lines if not _PACKED.search(line)]
