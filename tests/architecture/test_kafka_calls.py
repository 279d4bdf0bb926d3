"""Calls of the Kafka client that end the process that makes them."""

from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_nothing_asks_an_admin_client_for_the_offsets_of_a_group() -> None:
    """librdkafka 2.16 follows a null pointer in the answer when the group's coordinator has moved."""
    call = "list_consumer_group_offsets("
    folders = [_ROOT / name for name in ("afl", "afl_stream", "benchmarks", "examples", "tests", "tools")]
    sources = [path for folder in folders for path in folder.rglob("*.py") if path != Path(__file__)]

    assert len(sources) > 500
    assert [str(path.relative_to(_ROOT)) for path in sources if call in path.read_text()] == []
