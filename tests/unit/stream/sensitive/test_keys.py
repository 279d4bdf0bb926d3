"""The keys of a folder: whom they are refused for, what they outlive, and what dropping one does."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from afl.core.process.crashes import Crash
from afl_stream.embedded.transport import Faults
from afl_stream.sensitive.key_files import KeyFolder, read_master_keys
from afl_stream.sensitive.keys import KeyFileRefused, KeysMissing, KeyUnavailable


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    folder = KeyFolder(tmp_path / "keys")
    folder.add_master("first")
    return folder


def test_a_data_key_is_made_once_for_all_processes(keys: KeyFolder) -> None:
    made = keys.data_key("w1", create=True)

    assert made is not None
    assert KeyFolder(keys.path).data_key("w1") == made
    assert KeyFolder(keys.path).data_key("w1", create=True) == made
    assert keys.data_key("w2") is None


def test_only_the_owner_may_read_keys(keys: KeyFolder) -> None:
    keys.data_key("w1", create=True)

    for path in (keys.path, *keys.path.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    (keys.path / "master.keys").chmod(0o640)
    with pytest.raises(KeyFileRefused, match=r"other users may read or write it \(mode 0640\); run: chmod 600"):
        KeyFolder(keys.path).check()


def test_no_file_holds_a_data_key_in_plain(keys: KeyFolder) -> None:
    made = keys.data_key("w1", create=True)
    assert made is not None
    assert made.content is not None

    for path in keys.path.rglob("*"):
        if path.is_file():
            assert made.content not in path.read_bytes()
            assert base64.b64encode(made.content) not in path.read_bytes()


def test_another_master_key_under_the_same_name_is_named(keys: KeyFolder, tmp_path: Path) -> None:
    keys.data_key("w1", create=True)
    other = KeyFolder(tmp_path / "other")
    other.add_master("first")
    (keys.path / "master.keys").write_bytes((other.path / "master.keys").read_bytes())

    with pytest.raises(KeyUnavailable, match="master key first is not the one that it was encrypted with"):
        KeyFolder(keys.path).data_key("w1")


def test_a_missing_master_key_is_named(keys: KeyFolder, tmp_path: Path) -> None:
    keys.data_key("w1", create=True)
    (keys.path / "master.keys").unlink()
    with pytest.raises(KeysMissing, match="make it with: afl-stream keys create"):
        KeyFolder(keys.path).data_key("w1")

    KeyFolder(keys.path).add_master("second")
    with pytest.raises(KeyUnavailable, match="encrypted with master key first, and there is only second"):
        KeyFolder(keys.path).data_key("w1")


def test_master_keys_may_come_from_a_setting(keys: KeyFolder) -> None:
    made = keys.data_key("w1", create=True)
    listed = (keys.path / "master.keys").read_text()
    (keys.path / "master.keys").unlink()

    assert KeyFolder(keys.path, read_master_keys(listed)).data_key("w1") == made


@pytest.mark.parametrize(
    "listed", ["first", "first=abc", "=" + "A" * 43 + "=", "a=" + "A" * 43 + "=, a=" + "A" * 43 + "="]
)
def test_master_keys_of_another_form_are_refused_without_a_quote(listed: str) -> None:
    with pytest.raises(ValueError, match="master key") as refused:
        read_master_keys(listed)

    assert "AAAA" not in str(refused.value)


def test_after_a_rewrap_earlier_master_keys_may_go(keys: KeyFolder) -> None:
    made = keys.data_key("w1", create=True)
    keys.drop("w2", 5)
    keys.add_master("second")

    assert keys.rewrap() == 1
    assert keys.rewrap() == 0

    master = keys.path / "master.keys"
    master.write_text(master.read_text().splitlines()[0])
    assert KeyFolder(keys.path).data_key("w1") == made


def test_a_dropped_key_is_gone_for_every_process_and_never_made_again(keys: KeyFolder) -> None:
    other = KeyFolder(keys.path)
    made = other.data_key("w1", create=True)
    assert made is not None

    dropped = keys.drop("w1", 1_700_000_000_000)

    assert dropped == made
    for folder in (keys, other, KeyFolder(keys.path)):
        found = folder.data_key("w1", create=True)
        assert found is not None
        assert found.is_erased
        assert found.erased_at_ms == 1_700_000_000_000
    assert keys.counted().erased == 1


@pytest.mark.parametrize("point", ["keys.overwritten", "keys.written"])
def test_a_drop_that_was_cut_short_has_lost_the_key_and_is_repeated(keys: KeyFolder, point: str) -> None:
    made = keys.data_key("w1", create=True)
    assert made is not None
    keys.data_key("w2", create=True)
    # Wrapped keys are random: any text of two characters may stand in one.
    (path,) = (path for path in (keys.path / "data").glob("??/*") if json.loads(path.read_bytes())["scope"] == "w1")
    wrapped = json.loads(path.read_bytes())["wrapped"].encode()
    faults = Faults()
    faults.fail_at(point)

    with pytest.raises(Crash):
        KeyFolder(keys.path, probe=faults.probe).drop("w1", 7)

    assert all(wrapped not in found.read_bytes() for found in keys.path.rglob("*") if found.is_file())
    with pytest.raises(KeyUnavailable, match="is damaged"):
        KeyFolder(keys.path).data_key("w1")

    assert KeyFolder(keys.path).drop("w1", 8) is None
    assert json.loads(path.read_bytes()) == {"scope": "w1", "erased_at_ms": 8}
    other = KeyFolder(keys.path).data_key("w2")
    assert other is not None
    assert not other.is_erased
