"""Calls of the Kafka client that end the process that makes them."""

from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "call",
    [
        # librdkafka 2.16 frees memory twice when its time is over while it looks for the partitions' leaders.
        "list_offsets(",
        # librdkafka 2.16 follows a null pointer in the answer when the group's coordinator has moved.
        "list_consumer_group_offsets(",
    ],
)
def test_nothing_asks_an_admin_client_for_offsets(call: str) -> None:
    assert [str(path.relative_to(_ROOT)) for path in sources() if call in path.read_text()] == []


def test_no_description_of_groups_is_given_up_by_the_client_library() -> None:
    # librdkafka 2.16 aborts when its time is over while it looks for a coordinator that is found after that.
    calls = [
        (str(path.relative_to(_ROOT)), line.strip())
        for path in sources()
        for line in path.read_text().splitlines()
        if ".describe_consumer_groups(" in line
    ]

    assert len(calls) > 3
    assert [call for call in calls if "request_timeout=NEVER_S)" not in call[1]] == []


def sources() -> list[Path]:
    folders = [_ROOT / name for name in ("afl", "afl_stream", "benchmarks", "examples", "tests", "tools")]
    found = [path for folder in folders for path in folder.rglob("*.py") if path != Path(__file__)]
    assert len(found) > 500
    return found
