"""The topics of a subscription: names, globs and regular expressions."""

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl_stream.pubsub.errors import SubscriptionInvalid
from afl_stream.pubsub.subscriptions.selection import TopicSelection, regex_of_glob


def takes(topic: str, *, pattern: str | None = None, regex: str | None = None) -> bool:
    return TopicSelection.of((), pattern, regex, who="subscription s").takes(topic)


@given(st.text("ab.-*?", max_size=6), st.text("ab.-", min_size=1, max_size=8))
def test_a_glob_matches_what_it_matches_for_file_names(glob: str, topic: str) -> None:
    assert takes(topic, pattern=glob) == fnmatchcase(topic, glob)


@pytest.mark.parametrize(
    ("glob", "topic", "is_taken"),
    [
        ("orders.*", "orders.eu", True),
        ("orders.*", "orders", False),
        ("orders.*", "my.orders.eu", False),
        ("orders.?", "orders.eu", False),
        ("orders-[0-9]", "orders-7", True),
        ("orders-[!0-9]", "orders-7", False),
        ("orders-[!0-9]", "orders-a", True),
        ("orders", "orders.eu", False),
        ("a.b", "axb", False),
        ("[", "[", True),
        # Kafka's own topics are not taken by accident.
        ("*", "orders", True),
        ("*", "_private", True),
        ("*", "__consumer_offsets", False),
        ("*_offsets", "__consumer_offsets", False),
        ("__consumer*", "__consumer_offsets", True),
    ],
)
def test_a_glob_matches_whole_names(glob: str, topic: str, is_taken: bool) -> None:
    assert takes(topic, pattern=glob) is is_taken


def test_the_expression_of_a_glob_is_one_that_brokers_and_clients_know() -> None:
    assert regex_of_glob("orders.*-[!a]?") == r"^orders\..*-[^a].$"


@pytest.mark.parametrize("regex", ["orders\\.(eu|us)", "^orders\\.(eu|us)$"])
def test_a_regular_expression_matches_whole_names_with_or_without_its_ends(regex: str) -> None:
    assert takes("orders.eu", regex=regex)
    assert not takes("orders.eux", regex=regex)
    assert not takes("xorders.eu", regex=regex)


@pytest.mark.parametrize("regex", [r"orders\d", r"orders(?!x)", "orders.*?", r"\borders", "orders("])
def test_what_brokers_do_not_know_is_refused(regex: str) -> None:
    with pytest.raises(SubscriptionInvalid, match=re.escape(repr(regex))):
        takes("orders", regex=regex)


@pytest.mark.parametrize(
    ("topics", "pattern", "regex"), [((), None, None), (("a",), "a*", None), ((), "a*", "a.*"), (("a",), None, "a")]
)
def test_topics_are_given_in_one_way(topics: tuple[str, ...], pattern: str | None, regex: str | None) -> None:
    with pytest.raises(SubscriptionInvalid, match="only one of them"):
        TopicSelection.of(topics, pattern, regex, who="subscription s")


def test_one_text_is_no_list_of_topics() -> None:
    with pytest.raises(SubscriptionInvalid, match="a list of names, found the text 'orders'"):
        TopicSelection.of("orders", who="subscription s")


def test_a_topic_that_is_named_twice_is_subscribed_to_once() -> None:
    assert TopicSelection.of(["a", "b", "a"], who="subscription s").names == ("a", "b")
