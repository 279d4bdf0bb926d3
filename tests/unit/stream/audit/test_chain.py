"""The hash chain of audit lines: whatever is done to them afterwards breaks it, and the place is told."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from afl_stream.audit.file_sink import AuditFile
from afl_stream.audit.sqlite_sink import AuditDatabase
from afl_stream.audit.verifying import NoAuditLines, verify

COUNT = 12


def plain(number: int) -> bytes:
    entry = {"kind": "event", "topic": "t", "partition": 0, "offset": number, "time_ms": number, "step": f"s-{number}"}
    return json.dumps(entry).encode() + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    for numbers in (range(5), range(5, COUNT)):  # Two audits, one after the other.
        sink = AuditFile(path)
        sink.write(map(plain, numbers))
        sink.sync({})
        sink.close()
    return path


def read(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_each_value_is_the_hash_of_the_value_before_it_and_its_line(path: Path) -> None:
    before = ""
    for number, line in enumerate(read(path)):
        value = sha256(before.encode() + plain(number)[:-2]).hexdigest()
        assert line == plain(number)[:-2] + f',"chain":"{value}"}}\n'.encode()
        assert json.loads(line)["chain"] == value
        before = value


def test_lines_that_nobody_has_touched_are_intact_and_end_with_the_head(path: Path) -> None:
    found = verify(path)

    assert found.is_intact
    assert found.chain.lines == COUNT
    assert found.chain.head == json.loads(read(path)[-1])["chain"]
    assert found.offsets.missing == []


Forgery = Callable[[list[bytes]], list[bytes]]


def changed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:5], lines[5].replace(b"s-5", b"s-6"), *lines[6:]]


def changed_with_a_hash_that_fits(lines: list[bytes]) -> list[bytes]:
    before = json.loads(lines[4])["chain"]
    forged = plain(77)
    value = sha256(before.encode() + forged[:-2]).hexdigest()
    return [*lines[:5], forged[:-2] + f',"chain":"{value}"}}\n'.encode(), *lines[6:]]


FORGERIES: dict[str, tuple[Forgery, int]] = {
    # What is done, and the number of the line at which it shows.
    "a line is changed": (changed, 6),
    "a line is changed, with a hash that fits it": (changed_with_a_hash_that_fits, 7),
    "a line is deleted": (lambda lines: lines[:5] + lines[6:], 6),
    "the middle is cut out": (lambda lines: lines[:3] + lines[9:], 4),
    "the first line is deleted": (lambda lines: lines[1:], 1),
    "the beginning is cut off": (lambda lines: lines[6:], 1),
    "two lines are swapped": (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 5),
    "a line is repeated": (lambda lines: [*lines[:5], lines[4], *lines[5:]], 6),
    "a line without a hash is inserted": (lambda lines: [*lines[:5], plain(99), *lines[5:]], 6),
    "a line loses its hash": (lambda lines: [*lines[:5], plain(5), *lines[6:]], 6),
    "the beginning loses its hashes": (lambda lines: [*map(plain, range(6)), *lines[6:]], 7),
    "an empty line is inserted": (lambda lines: [*lines[:5], b"\n", *lines[5:]], 6),
    "a byte is added to a line": (lambda lines: [*lines[:5], b" " + lines[5], *lines[6:]], 6),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_tampering_shows_at_its_place(path: Path, name: str) -> None:
    forge, number = FORGERIES[name]
    path.write_bytes(b"".join(forge(read(path))))

    found = verify(path)

    assert not found.is_intact
    assert found.chain.breaks[0].number == number


def test_any_changed_byte_shows(path: Path) -> None:
    whole, drawn = path.read_bytes(), random.Random(17)
    for _ in range(200):
        at = drawn.randrange(len(whole))
        other = whole[at] ^ (1 << drawn.randrange(8))
        path.write_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])
        found = verify(path)
        # Of the last newline there is only that the file ends within a line.
        assert not found.is_intact or (at == len(whole) - 1 and found.torn_bytes)


def test_a_cut_tail_shows_only_against_a_head_that_was_kept(path: Path) -> None:
    head = verify(path).chain.head
    path.write_bytes(b"".join(read(path)[:-3]))

    assert verify(path).is_intact
    found = verify(path, [head])
    assert not found.is_intact
    assert found.missing_heads == (head,)


def test_an_older_head_is_found_at_its_line_while_the_file_grows(path: Path) -> None:
    older = json.loads(read(path)[6])["chain"]

    found = verify(path, [older])

    assert found.is_intact
    assert found.chain.heads == {older: 7}


def test_lines_of_an_earlier_release_are_covered_by_the_first_hash(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(map(plain, range(4))))
    sink = AuditFile(path)
    sink.write([plain(4)])
    sink.close()

    found = verify(path)
    assert found.is_intact
    assert found.chain.unsealed == 4

    path.write_bytes(path.read_bytes().replace(b"s-2", b"s-9"))
    assert [broken.number for broken in verify(path).chain.breaks] == [5]


def test_lines_of_which_none_has_a_hash_are_not_called_intact(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "chain"}) + "\n" for line in lines))

    found = verify(path)

    assert (found.chain.unsealed, found.chain.break_count) == (len(lines), 0)
    assert not found.is_sealed
    assert not found.is_intact


def test_a_file_without_a_line_of_an_audit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "desk.py"
    path.write_text("def register_handlers(runner):\n    pass\n")

    with pytest.raises(NoAuditLines, match="has no line of an audit; expected a file that"):
        verify(path)


def test_a_torn_line_is_told_and_is_removed_by_the_next_audit(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"kind":"ev')

    torn = verify(path)
    assert torn.is_intact
    assert torn.torn_bytes == 11

    sink = AuditFile(path)
    sink.write([plain(COUNT)])
    sink.close()
    assert verify(path).is_intact
    assert verify(path).chain.lines == COUNT + 1


def test_lines_that_were_inserted_do_not_stop_the_next_audit_and_stay_visible(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"a note\n")
    sink = AuditFile(path)
    sink.write([plain(COUNT)])
    sink.close()

    assert [broken.number for broken in verify(path).chain.breaks] == [COUNT + 1]


def test_missing_offsets_show_unless_a_line_says_why(tmp_path: Path) -> None:
    def written(name: str, *lines: bytes) -> Path:
        sink = AuditFile(tmp_path / name)
        sink.write(lines)
        sink.close()
        return tmp_path / name

    gap = b'{"kind":"gap","reason":"transactions","topic":"t","partition":0,"expected_offset":1,"found_offset":3}\n'

    explained = verify(written("explained", plain(0), gap, plain(3)))
    assert explained.is_intact
    assert explained.offsets.explained == {"transactions": 2}

    missing = verify(written("missing", plain(0), plain(3)))
    assert not missing.is_intact
    (found,) = missing.offsets.missing
    assert (found.expected, found.found, found.line) == (1, 3, 2)
    assert missing.offsets.missing_count == 2


def test_what_is_no_audit_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NoAuditLines, match="does not exist"):
        verify(tmp_path / "nothing")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(NoAuditLines, match="has no lines"):
        verify(tmp_path / "empty")


def test_a_database_has_the_same_chain_as_a_file(tmp_path: Path, path: Path) -> None:
    database = tmp_path / "audit.db"
    sink = AuditDatabase(database)
    sink.write(map(plain, range(COUNT)))
    sink.sync({})
    sink.close()

    assert verify(database).chain.head == verify(path).chain.head
