"""Subscription expressions: by operators, by a builder and from text they are the same, to any depth."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl_stream.pubsub import (
    AllOf,
    AnyOf,
    InputTopic,
    On,
    SubscriptionBuilder,
    Topic,
    extract_topics,
    parse_subscription,
)
from afl_stream.pubsub.model.expressions import ExpressionInvalid, TopicExpression, with_topics
from afl_stream.pubsub.model.subscription_text import SubscriptionTextInvalid
from afl_stream.pubsub.model.topics import JoinedByWords

A, B, C, D = (Topic(name) for name in "abcd")
TOPICS = (A, B, C, D)
#: Deeper than Python's own stack.
DEPTH = 10_000


def is_met(expression: TopicExpression, names: Iterable[str]) -> bool:
    return expression.is_met(set(names).__contains__)


def parsed(text: str) -> TopicExpression:
    return parse_subscription(text, TOPICS)


def failure(text: str) -> SubscriptionTextInvalid:
    with pytest.raises(SubscriptionTextInvalid) as raised:
        parsed(text)
    return raised.value


# --- three ways to one expression ---------------------------------------------------------------------------------


def test_topics_combine_by_operators() -> None:
    assert AllOf((On(A), AnyOf((On(B), On(C))))) == A & (B | C)
    assert On(A) & B == A & B == A & On(B)


def test_a_builder_makes_what_the_operators_make() -> None:
    group = SubscriptionBuilder().subscribed_to(B).or_().subscribed_to(C)

    assert SubscriptionBuilder().subscribed_to(A).and_().subscribed_to(group).build() == A & (B | C)
    assert SubscriptionBuilder().subscribed_to(A).and_().subscribed_to(group.build()).build() == A & (B | C)
    assert str(SubscriptionBuilder().subscribed_to(A).and_().subscribed_to("b | c").build()) == "a & (b | c)"
    assert SubscriptionBuilder().subscribed_to(A).build() == On(A)


def test_and_binds_tighter_than_or_in_each_of_them() -> None:
    expected = AnyOf((On(A), AllOf((On(B), On(C))), On(D)))

    assert expected == A | B & C | D
    assert parsed("a | b & c | d") == expected
    builder = SubscriptionBuilder().subscribed_to(A).or_().subscribed_to(B)
    assert builder.and_().subscribed_to(C).or_().subscribed_to(D).build() == expected


def test_a_builder_is_not_changed_by_what_it_has_built() -> None:
    builder = SubscriptionBuilder().subscribed_to(A)
    first = builder.build()

    assert builder.or_().subscribed_to(B).build() == A | B
    assert first == On(A)


@pytest.mark.parametrize("text", ["a & (b | c)", "a and (b or c)", "a AND(b\n\tOR c)", '"a"&("b"|((c)))'])
def test_text_has_signs_or_words(text: str) -> None:
    assert parsed(text) == A & (B | C)


def test_a_topic_named_like_an_operator_stands_in_quotes() -> None:
    words = (Topic("and"), Topic("OR"))

    assert parse_subscription('"and" or "OR"', words) == words[0] | words[1]
    assert str(words[0] | words[1]) == '"and" | "OR"'


def test_an_and_in_an_and_is_one_and() -> None:
    assert A & (B & C) == (A & B) & C == parsed("a & b & c")
    assert len({A & (B & C), (A & B) & C, A | B, B | A}) == 3


def test_the_text_has_no_parentheses_that_it_can_do_without() -> None:
    assert str(parsed("((a)) & ((b) | (c & d))")) == "a & (b | c & d)"
    assert repr(parsed("(a|b)|c")) == "<AnyOf a | b | c>"


def test_the_topics_are_told_in_their_order_each_once() -> None:
    assert extract_topics((B | A) & (A | C)) == (B, A, C)
    assert extract_topics(On(D)) == (D,)


def test_names_are_resolved_to_the_topics_of_these_names() -> None:
    topics = {name: InputTopic(name) for name in "abc"}

    resolved = with_topics(parse_subscription("c & (a | b) | a"), lambda topic: topics[topic.name])

    assert str(resolved) == "c & (a | b) | a"
    assert extract_topics(resolved) == (topics["c"], topics["a"], topics["b"])


# --- when they are met --------------------------------------------------------------------------------------------


def test_and_needs_all_or_needs_one() -> None:
    assert is_met(A & B, "ab")
    assert not is_met(A & B, "a")
    assert is_met(A | B, "b")
    assert not is_met(A | B, "cd")
    assert is_met(parsed("a & (b | c)"), "ac")
    assert not is_met(parsed("a & (b | c)"), "bc")


def test_no_topic_is_asked_for_that_changes_nothing() -> None:
    asked: list[str] = []

    def has_events(name: str) -> bool:
        asked.append(name)
        return name == "a"

    assert (A | B).is_met(has_events)
    assert not (B & C).is_met(has_events)
    assert asked == ["a", "b"]


EXPRESSIONS: st.SearchStrategy[TopicExpression] = st.recursive(
    st.sampled_from(TOPICS).map(On),
    lambda inner: st.builds(
        lambda kind, parts: kind(tuple(parts)), st.sampled_from((AllOf, AnyOf)), st.lists(inner, min_size=2, max_size=4)
    ),
    max_leaves=30,
)


@given(EXPRESSIONS)
def test_the_text_of_an_expression_parses_back_to_it(expression: TopicExpression) -> None:
    again = parsed(str(expression))

    assert again == expression
    assert hash(again) == hash(expression)
    assert with_topics(expression, lambda topic: topic) == expression


@given(EXPRESSIONS, st.sets(st.sampled_from("abcd")))
def test_an_expression_holds_as_python_says(expression: TopicExpression, names: set[str]) -> None:
    python = str(expression).replace("&", "and").replace("|", "or")

    assert is_met(expression, names) is eval(python, {name: name in names for name in "abcd"})


@given(EXPRESSIONS, EXPRESSIONS)
def test_expressions_are_equal_when_their_texts_are(one: TopicExpression, other: TopicExpression) -> None:
    assert (one == other) is (str(one) == str(other))


# --- depth --------------------------------------------------------------------------------------------------------


def test_an_expression_may_nest_deeper_than_pythons_stack() -> None:
    text = "a & (b | (" * DEPTH + "c" + "))" * DEPTH
    deep = parse_subscription(text, TOPICS)

    assert extract_topics(deep) == (A, B, C)
    assert is_met(deep, "ab")
    assert not is_met(deep, "a")
    assert is_met(deep, "ac")
    assert parsed(str(deep)) == deep
    assert hash(deep) == hash(parsed(str(deep)))


def test_any_number_of_parentheses_may_stand_around_a_topic() -> None:
    assert parsed("(" * DEPTH + "a" + ")" * DEPTH) == On(A)
    assert "never closed" in str(failure("(" * DEPTH + "a"))


# --- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "caret", "reason"),
    [
        ("a & | b", 4, "a topic stands here, not '|'"),
        ("a &", 3, "a topic stands here, not the end"),
        ("", 0, "a topic stands here, not the end"),
        ("()", 1, "a topic stands here, not ')'"),
        ("a b", 2, "& or | stands between two topics"),
        ("a (b)", 2, "& or | stands between two topics"),
        ("(a) b", 4, "& or | stands between two topics"),
        ("a | (b & c", 4, "this parenthesis is never closed"),
        ("a)", 1, "no parenthesis is open here"),
        ("a & ?b", 4, "neither a topic's name, nor one of &, |, and, or, ( and )"),
        ('a & "b', 4, "this quote is never closed"),
        ('"" & a', 1, "a topic's name has 1 to 249 letters, digits, '.', '_' and '-', and is not '.' or '..'"),
        ("a or and b", 5, "a topic stands here, not 'and'"),
    ],
)
def test_a_wrong_text_is_shown_with_its_place(text: str, caret: int, reason: str) -> None:
    error = failure(text)

    assert (error.reason, error.position) == (reason, caret)
    _, shown, place = str(error).splitlines()
    assert shown == f"    {text}"
    assert place.index("^") - 4 == caret


def test_a_long_text_is_shown_around_the_place_only() -> None:
    error = failure("a & " * 5_000 + "& " + "a & " * 5_000)

    _, shown, place = str(error).splitlines()
    assert shown[place.index("^")] == "&"
    assert len(shown) < 120


def test_an_unknown_topic_is_told_with_near_names() -> None:
    topics = [Topic("orders"), Topic("payments")]

    with pytest.raises(SubscriptionTextInvalid, match=r"there is no topic payment; did you mean payments\?"):
        parse_subscription("orders & payment", topics)
    with pytest.raises(SubscriptionTextInvalid, match="there is no topic zzz; the topics are orders, payments"):
        parse_subscription("zzz", topics)
    with pytest.raises(SubscriptionTextInvalid, match="there are no topics"):
        parse_subscription("zzz", [])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SubscriptionBuilder().build(), "a subscription to nothing: subscribed_to"),
        (lambda: SubscriptionBuilder().and_(), r"begins with and_\(\)"),
        (lambda: SubscriptionBuilder().or_(), r"begins with or_\(\)"),
        (lambda: SubscriptionBuilder().subscribed_to(A).and_().build(), r"ends with and_\(\)"),
        (lambda: SubscriptionBuilder().subscribed_to(A).or_().build(), r"ends with or_\(\)"),
        (lambda: SubscriptionBuilder().subscribed_to(A).or_().and_(), r"and_\(\) stands right behind or_\(\)"),
        (
            lambda: SubscriptionBuilder().subscribed_to(A).subscribed_to(B),
            r"subscribed_to\(b\) stands right behind subscribed_to\(a\): and_\(\) or or_\(\)",
        ),
        (lambda: SubscriptionBuilder().subscribed_to(SubscriptionBuilder()), "a subscription to nothing"),
        (lambda: SubscriptionBuilder().subscribed_to(None), "a subscription to a NoneType"),  # type: ignore[arg-type]  # wrong
        (lambda: A & "b", "a subscription to a str"),  # type: ignore[operator]  # as wrong as a program may be
        (lambda: AllOf((On(A),)), "1 topics joined by '&'"),
        (lambda: AnyOf(()), "0 topics joined by '|'"),
    ],
)
def test_an_incomplete_expression_says_what_is_missing(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(ExpressionInvalid, match=message):
        build()


@pytest.mark.parametrize(
    "joined",
    [lambda: A and B, lambda: A or B, lambda: (A & B) and C, lambda: not A],
    ids=["a and b", "a or b", "(a & b) and c", "not a"],
)
def test_topics_that_are_joined_by_words_are_refused(joined: Callable[[], object]) -> None:
    with pytest.raises(JoinedByWords, match=r"joined by & and \|, not by `and` and `or`"):
        joined()
