"""Encrypted values: equal when they come back, good for one place only, and told apart from what looks like one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from afl_stream.sensitive.envelope import ERASED, Place, is_sealed, read_envelope
from afl_stream.sensitive.key_files import KeyFolder
from afl_stream.sensitive.sealing import SealBroken, Sealer

PLACE = Place("w1", "w1:a1", "param", "card")


@pytest.fixture
def sealer(tmp_path: Path) -> Sealer:
    keys = KeyFolder(tmp_path / "keys")
    keys.add_master()
    return Sealer(keys)


@pytest.mark.parametrize(
    "value",
    ["4111", "", None, True, 0, 2**70, -1.5, ["a", {"b": None}], {"": []}, "日本\x00", "\ud800", "afl-sealed:1:x:y"],
)
def test_a_value_comes_back_equal(sealer: Sealer, value: object) -> None:
    text = sealer.seal(value, PLACE)

    assert is_sealed(text)
    opened = sealer.open(text, PLACE)
    assert opened == value
    assert type(opened) is type(value)


def test_numbers_that_json_lacks_come_back(sealer: Sealer) -> None:
    opened = sealer.open(sealer.seal([math.nan, math.inf], PLACE), PLACE)

    assert math.isnan(opened[0])
    assert opened[1] == math.inf


def test_the_documented_form_is_what_another_program_reads(sealer: Sealer) -> None:
    """By AES-GCM of the library, from the form that docs/sensitive-data.md describes."""
    envelope = read_envelope(sealer.seal({"n": 1}, PLACE))
    key = sealer.keys.data_key("w1")
    assert key is not None
    assert key.content is not None

    associated = b'["afl-sealed",1,"w1","w1:a1","param","card"]'
    assert AESGCM(key.content).decrypt(envelope.nonce, envelope.content, associated) == b'{"n":1}'
    assert envelope.key_id == key.id


@pytest.mark.parametrize(
    "elsewhere",
    [
        PLACE._replace(workflow_id="w2"),
        PLACE._replace(step_id="w1:b2"),
        PLACE._replace(kind="return"),
        PLACE._replace(name="cvc"),
    ],
    ids=str,
)
def test_a_value_is_good_in_its_place_only(sealer: Sealer, elsewhere: Place) -> None:
    text = sealer.seal("4111", PLACE)
    sealer.seal("other", elsewhere)

    with pytest.raises(SealBroken):
        sealer.open(text, elsewhere)


@pytest.mark.parametrize(
    "text", ["afl-sealed:", "afl-sealed:2:a:b", "afl-sealed:1:a", "afl-sealed:1:a:%%%", "afl-sealed:1:a:AAAA"]
)
def test_a_damaged_text_is_broken_and_nothing_else(sealer: Sealer, text: str) -> None:
    sealer.seal("4111", PLACE)

    with pytest.raises(SealBroken, match="card of step w1:a1 cannot be decrypted"):
        sealer.open(text, PLACE)


def test_each_changed_character_breaks_it(sealer: Sealer) -> None:
    text = sealer.seal("4111", PLACE)
    start = len("afl-sealed:1:")

    for at in range(start, len(text) - 1):
        other = "B" if text[at] != "B" else "C"
        with pytest.raises(SealBroken):
            sealer.open(text[:at] + other + text[at + 1 :], PLACE)


def test_the_same_value_is_another_text_each_time(sealer: Sealer) -> None:
    assert len({sealer.seal("4111", PLACE) for _ in range(100)}) == 100


def test_only_named_values_and_what_looks_encrypted_are_encrypted(sealer: Sealer) -> None:
    values: Mapping[str, Any] = {"card": "4111", "cents": 5, "odd": "afl-sealed:1:mine"}

    sealed = sealer.seal_values(values, {"card"}, "w1", "w1:a1", "param")

    assert [name for name, value in sealed.items() if is_sealed(value)] == ["card", "odd"]
    assert "mine" not in sealed["odd"]
    assert sealer.open_values(sealed, "w1", "w1:a1", "param") == values
    plain = {"cents": 5}
    assert sealer.seal_values(plain, {"card"}, "w1", "w1:a1", "param") is plain


def test_after_its_key_is_dropped_a_value_reads_as_erased_and_none_is_written(sealer: Sealer) -> None:
    text = sealer.seal("4111", PLACE)

    sealer.keys.drop("w1", 1)

    assert sealer.open(text, PLACE) == ERASED
    assert sealer.seal("4111", PLACE) == ERASED
