"""Patterns of topics."""

import pytest

from afl_stream.pubsub import SubscriptionInvalid
from afl_stream.pubsub.subscriptions.selection import TopicSelection


@pytest.mark.parametrize("given", [{"pattern": "orders.[z-a]"}, {"regex": "orders("}, {"regex": "orders\\$"}], ids=str)
def test_a_pattern_that_is_none_is_refused_when_it_is_declared(given: dict[str, str]) -> None:
    with pytest.raises(SubscriptionInvalid, match=r"subscription audit: (pattern|regex) 'orders"):
        TopicSelection.of(**given, who="audit")


def test_a_pattern_takes_whole_names() -> None:
    selection = TopicSelection.of(regex="^a|b$", who="audit")

    assert [name for name in ("a", "b", "ab", "ba") if selection.takes(name)] == ["a", "b"]
