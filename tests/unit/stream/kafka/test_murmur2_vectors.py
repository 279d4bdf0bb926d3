"""Records are placed where Java clients place them."""

import json
from pathlib import Path

import pytest

from afl_stream.partitioner import murmur2, partition_for

VECTORS = Path(__file__).resolve().parents[4] / "schemas" / "partitioner_vectors.json"


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_hashes_of_kafkas_own_tests(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed


def test_the_sign_bit_is_cut_off_before_the_remainder_is_taken() -> None:
    # -973932308 is 0xC5F314EC; without the sign bit 0x45F314EC = 1173551340.
    assert partition_for(b"21", 12) == 1173551340 % 12


def test_the_published_vectors_are_what_the_partitioner_does() -> None:
    for vector in json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]:
        key = vector["key"].encode()
        assert murmur2(key) == vector["murmur2"]
        assert partition_for(key, 6) == vector["partition_of_6"]
        assert partition_for(key, 12) == vector["partition_of_12"]
