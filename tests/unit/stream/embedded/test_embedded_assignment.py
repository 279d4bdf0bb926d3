"""The embedded broker's assignment of partitions."""

import re

import pytest

from afl_stream.embedded.group import Group, Member, assign_range, assign_sticky
from afl_stream.embedded.transport import AssignorMismatch
from afl_stream.transport import Assignor, TopicPartition


def member(sequence: int, *topics: str, client_id: str = "", has: set[TopicPartition] | None = None) -> Member:
    return Member(
        client_id=client_id,
        sequence=sequence,
        topics=frozenset(topics),
        pattern=None,
        wake=lambda: None,
        target=has or set(),
    )


def partitions(topic: str, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in numbers}


def test_range_gives_runs_of_partitions_and_the_first_members_one_more() -> None:
    given = assign_range([member(1, "a"), member(2, "a"), member(3, "a")], {"a": 7})

    assert given == {1: partitions("a", 0, 1, 2), 2: partitions("a", 3, 4), 3: partitions("a", 5, 6)}


def test_range_gives_the_same_partition_of_each_topic_to_one_member() -> None:
    given = assign_range([member(1, "a", "b"), member(2, "a", "b")], {"a": 4, "b": 4})

    assert given[1] == partitions("a", 0, 1) | partitions("b", 0, 1)
    assert given[2] == partitions("a", 2, 3) | partitions("b", 2, 3)


def test_nobody_gets_a_topic_that_it_did_not_ask_for() -> None:
    members = [member(1, "a"), member(2, "b")]

    for assign in (assign_range, assign_sticky):
        assert assign(members, {"a": 3, "b": 2, "c": 4}) == {1: partitions("a", 0, 1, 2), 2: partitions("b", 0, 1)}


def test_a_pattern_matches_from_the_first_character_on() -> None:
    matching = Member(client_id="", sequence=1, topics=frozenset(), pattern=re.compile("a.b"), wake=lambda: None)

    assert [topic for topic in ("a.b", "a.b.c", "x.a.b") if matching.wants(topic)] == ["a.b", "a.b.c"]


def test_sticky_moves_no_more_than_a_new_member_needs() -> None:
    first = assign_sticky([member(1, "a")], {"a": 6})
    second = assign_sticky([member(1, "a", has=first[1]), member(2, "a")], {"a": 6})

    assert len(second[1]) == len(second[2]) == 3
    assert second[1] < first[1]


def test_sticky_keeps_all_when_a_member_leaves() -> None:
    given = assign_sticky([member(1, "a", has=partitions("a", 0, 3)), member(2, "a", has=partitions("a", 1))], {"a": 6})

    assert given[1] >= partitions("a", 0, 3)
    assert given[2] >= partitions("a", 1)
    assert len(given[1]) == len(given[2]) == 3


def test_sticky_balances_over_topics_that_not_everyone_reads() -> None:
    given = assign_sticky([member(1, "a", "b"), member(2, "a")], {"a": 4, "b": 4})

    assert given == {1: partitions("b", 0, 1, 2, 3), 2: partitions("a", 0, 1, 2, 3)}


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8])
def test_sticky_gives_each_partition_to_one_member_and_loads_differ_by_one_at_most(members: int) -> None:
    topics = {"a": 5, "b": 3, "c": 12}
    given = assign_sticky([member(number, *topics) for number in range(members)], topics)

    loads = [len(of_one) for of_one in given.values()]
    assert sum(loads) == len(set.union(*given.values())) == 20
    assert max(loads) - min(loads) <= 1


def test_members_stand_in_the_order_of_client_id_then_of_joining() -> None:
    group = Group("g")
    for joining in (member(1, "a", client_id="b"), member(2, "a", client_id="a"), member(3, "a", client_id="a")):
        group.join(joining, Assignor.RANGE)
    group.rebalance({"a": 3})

    assert [(m.sequence, m.target) for m in group.members] == [
        (2, partitions("a", 0)),
        (3, partitions("a", 1)),
        (1, partitions("a", 2)),
    ]


def test_members_of_a_group_must_agree_on_the_assignor() -> None:
    group = Group("g")
    group.join(member(1, "a"), Assignor.RANGE)

    with pytest.raises(AssignorMismatch, match="group g assigns by range"):
        group.join(member(2, "a"), Assignor.COOPERATIVE_STICKY)
