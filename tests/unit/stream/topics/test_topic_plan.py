"""The topics of a deployment: names, sizes, and what is to be done about them."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from afl_stream.errors import (
    DeclarationError,
    PartitionsDiffer,
    TooFewBrokers,
    TooFewPartitions,
    TopicMissing,
    TopicNameRefused,
    TopicTooSmall,
)
from afl_stream.resources import topic_texts
from afl_stream.settings.config import StreamConfig, TopicSettings
from afl_stream.topics.declarations import KINDS, load_declarations, parse_declaration
from afl_stream.topics.declared import PlanAction, TopicPlan, Topology, check_topic_name, few_copies

FACET = topic_texts()["facet"]
CONTROL = topic_texts()["control"]


@dataclass(frozen=True)
class BrokerTopic:
    """A topic as a broker describes it."""

    partitions: int
    replication: int
    settings: dict[str, str] = field(default_factory=dict)


def topology(prefix: str = "afl.", facet_template: str = "{prefix}events.{facet}", facet_toml: str = FACET) -> Topology:
    declarations = load_declarations()
    declarations["facet"] = parse_declaration("facet", facet_toml, "facet.toml")
    return Topology(StreamConfig(prefix=prefix, topics=TopicSettings(facet_template=facet_template)), declarations)


def as_declared(of: Topology, facets: list[str]) -> dict[str, BrokerTopic]:
    return {spec.name: BrokerTopic(spec.partitions, spec.replication, dict(spec.settings)) for spec in of.specs(facets)}


def test_topics_are_named_after_prefix_and_facet() -> None:
    names = topology()

    assert names.control() == "afl.control"
    assert names.commands() == "afl.commands"
    assert names.external() == "afl.external"
    assert names.lifecycle() == "afl.lifecycle"
    assert names.definitions() == "afl.definitions"
    assert names.schemas() == "afl.schemas"
    assert names.facet("billing.ProcessPayment") == "afl.events.billing.ProcessPayment"
    assert names.dlq("afl.control") == "afl.dlq.control"
    assert names.dlq("afl.events.billing.ProcessPayment") == "afl.dlq.events.billing.ProcessPayment"


def test_the_prefix_may_be_empty_and_the_template_the_facet_alone() -> None:
    names = topology(prefix="", facet_template="{facet}")

    assert names.control() == "control"
    assert names.facet("billing.Pay") == "billing.Pay"
    assert names.dlq("billing.Pay") == "dlq.billing.Pay"


def test_the_shipped_declarations_say_why_for_every_topic() -> None:
    declarations = load_declarations()

    assert tuple(declarations) == KINDS
    for declaration in declarations.values():
        assert all(sentence.endswith(".") for sentence in declaration.why.values())


def test_control_commands_and_external_have_the_same_partitions() -> None:
    specs = {spec.name: spec for spec in topology().specs([])}

    assert {specs[name].partitions for name in ("afl.control", "afl.commands", "afl.external")} == {6}


def test_a_facet_has_twelve_partitions_three_replicas_and_a_weeks_retention() -> None:
    spec = next(spec for spec in topology().specs(["a.B"]) if spec.name == "afl.events.a.B")

    assert (spec.partitions, spec.replication) == (12, 3)
    assert spec.settings == {
        "cleanup.policy": "delete",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "2",
        "retention.ms": str(7 * 24 * 3600 * 1000),
    }


def test_compacted_topics_keep_their_records_for_ever() -> None:
    for spec in topology().specs([]):
        if spec.name in ("afl.definitions", "afl.schemas"):
            assert spec.settings["cleanup.policy"] == "compact"
            assert "retention.ms" not in spec.settings


def test_a_single_broker_is_never_asked_for_two_replicas_in_sync() -> None:
    single = Topology(StreamConfig(topics=TopicSettings(replication=1)))

    assert {(spec.replication, spec.settings["min.insync.replicas"]) for spec in single.specs(["a.B"])} == {(1, "1")}


def planned(
    brokers: int, existing: dict[str, BrokerTopic] | None = None, replication: int | None = None
) -> list[TopicPlan]:
    config = StreamConfig(topics=TopicSettings(replication=replication))
    return Topology(config).plan(["a.B"], existing or {}, brokers)


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (9, 3, 2)])
def test_topics_have_three_copies_or_as_many_as_there_are_brokers(brokers: int, copies: int, in_sync: int) -> None:
    specs = [plan.spec for plan in planned(brokers)]

    assert {(spec.replication, spec.settings["min.insync.replicas"]) for spec in specs} == {(copies, str(in_sync))}


@pytest.mark.parametrize(("brokers", "said"), [(1, "one broker, so each topic has one copy"), (2, "2 brokers, so")])
def test_fewer_than_three_copies_are_told_with_the_setting_that_says_they_are_meant(brokers: int, said: str) -> None:
    reported = few_copies(planned(brokers), brokers)

    assert reported is not None
    assert said in reported
    assert f"AFL_TOPICS_REPLICATION={brokers}" in reported


def test_nothing_is_told_of_copies_that_were_asked_for_or_are_enough_or_of_topics_that_are_there() -> None:
    there = {plan.spec.name: BrokerTopic(plan.spec.partitions, 1, dict(plan.spec.settings)) for plan in planned(1)}

    assert few_copies(planned(1, replication=1), 1) is None
    assert few_copies(planned(3), 3) is None
    assert few_copies(planned(1, there), 1) is None


def test_more_replicas_than_brokers_are_refused_with_the_setting_that_asks_for_them() -> None:
    with pytest.raises(TooFewBrokers, match=r"topics.replication is 3, and the cluster has 1 broker:.* leave it out"):
        planned(1, replication=3)


def test_more_replicas_than_brokers_in_a_declaration_are_refused_with_the_topics() -> None:
    names = topology(facet_toml=FACET + '\n[sizes."a.B"]\nreplication = 2\n')

    with pytest.raises(TooFewBrokers, match=r"topics/ declares .*\(afl\.events\.a\.B 2\): the cluster has 1 broker"):
        names.plan(["a.B"], {}, 1)


def test_replicas_beyond_the_brokers_that_answer_are_no_refusal_where_nothing_is_created() -> None:
    declared = Topology(StreamConfig(topics=TopicSettings(replication=3)))

    plans = declared.plan(["a.B"], as_declared(declared, ["a.B"]), 2)

    assert {plan.action for plan in plans} == {PlanAction.OK}


def test_a_topic_with_fewer_copies_than_the_cluster_could_hold_is_told() -> None:
    there = {plan.spec.name: BrokerTopic(plan.spec.partitions, 1, dict(plan.spec.settings)) for plan in planned(1)}

    plans = planned(3, there)

    assert {plan.differences for plan in plans} == {
        ("replication: found 1, declared 3", "min.insync.replicas: found 1, declared 2")
    }


@pytest.mark.parametrize("answering", [1, 2])
def test_a_broker_that_is_away_makes_no_topic_differ(answering: int) -> None:
    there = {plan.spec.name: BrokerTopic(plan.spec.partitions, 3, dict(plan.spec.settings)) for plan in planned(3)}

    assert {plan.action for plan in planned(answering, there)} == {PlanAction.OK}


def test_no_topic_is_created_with_fewer_copies_because_a_broker_is_away() -> None:
    there = {plan.spec.name: BrokerTopic(plan.spec.partitions, 3, dict(plan.spec.settings)) for plan in planned(3)}
    for new in ("afl.events.a.B", "afl.dlq.events.a.B"):
        del there[new]

    with pytest.raises(TooFewBrokers, match=r"topics have 3 copies, and 2 brokers answer: one is away") as refused:
        planned(2, there)
    assert refused.value.asked == dict.fromkeys(there, 3)
    assert "Apply again when all are back" in str(refused.value)
    with pytest.raises(TooFewBrokers, match=r"3 copies, and 1 broker answers: 2 are away"):
        planned(1, there)

    created = [plan.spec for plan in planned(2, there, replication=2) if plan.action is PlanAction.CREATE]
    assert {(spec.name, spec.replication) for spec in created} == {("afl.events.a.B", 2), ("afl.dlq.events.a.B", 2)}


def test_topics_with_more_copies_than_is_usual_keep_no_new_one_from_its_three() -> None:
    there = {plan.spec.name: BrokerTopic(plan.spec.partitions, 5, dict(plan.spec.settings)) for plan in planned(5)}
    del there["afl.events.a.B"]

    assert [plan.spec.replication for plan in planned(4, there) if plan.action is PlanAction.CREATE] == [3]


def test_topics_take_what_max_event_bytes_allows() -> None:
    large = Topology(StreamConfig(max_event_bytes=5_000_000))

    assert all(int(spec.settings["max.message.bytes"]) > 5_000_000 for spec in large.specs(["a.B"]))


def test_every_topic_that_is_read_has_one_for_its_dead_letters() -> None:
    names = [spec.name for spec in topology().specs(["a.B"])]

    assert [name for name in names if "dlq" in name] == [
        "afl.dlq.control",
        "afl.dlq.commands",
        "afl.dlq.external",
        "afl.dlq.events.a.B",
    ]


def test_a_plan_creates_what_is_not_there() -> None:
    plans = topology().plan(["a.B"], {})

    assert {plan.action for plan in plans} == {PlanAction.CREATE}
    assert "afl.events.a.B" in [plan.spec.name for plan in plans]


def test_a_plan_for_topics_as_declared_has_nothing_to_do() -> None:
    names = topology()

    assert {plan.action for plan in names.plan(["a.B"], as_declared(names, ["a.B"]))} == {PlanAction.OK}


def test_a_plan_says_in_what_a_topic_differs() -> None:
    names = topology()
    existing = as_declared(names, ["a.B"])
    existing["afl.events.a.B"] = BrokerTopic(
        3, 3, {"cleanup.policy": "delete", "max.message.bytes": "1048588", "retention.ms": "1000"}
    )

    plan = next(plan for plan in names.plan(["a.B"], existing) if plan.action is not PlanAction.OK)

    assert plan.action is PlanAction.DIFFERS
    assert plan.spec.name == "afl.events.a.B"
    assert plan.differences == (
        "partitions: found 3, declared 12",
        "min.insync.replicas: found the broker's default, declared 2",
        "retention.ms: found 1000, declared 604800000",
    )


def test_a_missing_topic_is_an_error_with_the_command_that_creates_it() -> None:
    names = topology()
    existing = as_declared(names, ["a.B"])
    del existing["afl.events.a.B"]

    with pytest.raises(TopicMissing, match=r"afl\.events\.a\.B .*events of a\.B; run: afl-stream topics apply"):
        names.require(["a.B"], existing)


def test_a_topic_that_takes_less_than_max_event_bytes_is_refused_at_start() -> None:
    names = topology()
    existing = as_declared(names, ["a.B"])
    names.require(["a.B"], existing)
    existing["afl.events.a.B"] = BrokerTopic(12, 3, {"max.message.bytes": "100000"})

    with pytest.raises(TopicTooSmall, match=r"afl\.events\.a\.B takes records of 100000 bytes"):
        names.require(["a.B"], existing)


@pytest.mark.parametrize("topic", ["afl.events.a.B", "afl.lifecycle"])
def test_a_topic_with_fewer_partitions_than_declared_is_refused_with_the_command_that_mends_it(topic: str) -> None:
    names = topology()
    existing = as_declared(names, ["a.B"])
    declared = existing[topic].partitions
    existing[topic] = replace(existing[topic], partitions=declared + 1)
    names.require(["a.B"], existing)
    existing[topic] = replace(existing[topic], partitions=2)

    with pytest.raises(TooFewPartitions) as caught:
        names.require(["a.B"], existing)

    assert (caught.value.topic, caught.value.found, caught.value.declared) == (topic, 2, declared)
    assert f"--alter --topic {topic} --partitions {declared}" in str(caught.value)


@pytest.mark.parametrize(
    ("found", "remedy"),
    [
        ({"control": 4, "commands": 4, "external": 4}, "AFL_TOPICS_CONTROL_PARTITIONS=4"),
        ({"control": 8, "commands": 8, "external": 8}, "AFL_TOPICS_CONTROL_PARTITIONS=8"),
        ({"control": 6, "commands": 4, "external": 6}, "--alter --topic afl.commands --partitions 6"),
        ({"control": 4, "commands": 8, "external": 8}, "topic afl.control --partitions 8, and set topics.control_part"),
    ],
)
def test_control_topics_of_other_numbers_of_partitions_are_refused_with_what_mends_it(
    found: dict[str, int], remedy: str
) -> None:
    names = topology()
    existing = as_declared(names, [])
    for kind, partitions in found.items():
        existing[f"afl.{kind}"] = replace(existing[f"afl.{kind}"], partitions=partitions)

    with pytest.raises(PartitionsDiffer) as caught:
        names.require([], existing)

    assert caught.value.expected == 6
    assert caught.value.found == {f"afl.{kind}": partitions for kind, partitions in found.items()}
    assert remedy in str(caught.value)
    assert f"afl.control {found['control']}, afl.commands {found['commands']}" in str(caught.value)


def test_a_control_topic_declared_with_partitions_of_its_own_is_refused() -> None:
    declarations = load_declarations()
    own = CONTROL.replace('partitions = "control_partitions"', "partitions = 8")
    declarations["control"] = parse_declaration("control", own, "control.toml")

    with pytest.raises(DeclarationError, match=r"control\.toml: partitions: found 8, expected 6, the setting"):
        Topology(StreamConfig(), declarations)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\n", "x" * 250])
def test_names_that_kafka_does_not_take_are_refused(name: str) -> None:
    with pytest.raises(TopicNameRefused):
        check_topic_name(name)


def test_a_facet_whose_dead_letter_topic_is_too_long_is_refused() -> None:
    facet = "n." + "x" * 236

    assert len(topology().facet(facet)) == 249
    with pytest.raises(TopicNameRefused, match="253 characters, Kafka takes 249"):
        topology().check_names([facet])


def test_facets_that_kafka_folds_together_are_refused() -> None:
    with pytest.raises(TopicNameRefused, match=r"metrics would not tell it from afl\.events\.a\.b_C"):
        topology().check_names(["a_b.C", "a.b_C"])


def test_a_facet_may_not_take_the_topic_of_something_else() -> None:
    with pytest.raises(TopicNameRefused, match=r"facet control, is already the topic of the control topic"):
        topology(facet_template="{prefix}{facet}").check_names(["control"])


SHARED = (
    FACET
    + """
[[shared]]
topic = "{prefix}events.billing"
facets = ["billing.Pay", "billing.Refund"]

[sizes."billing.Pay"]
partitions = 24
[sizes."billing.Refund"]
retention_ms = 1_209_600_000
"""
)


def test_several_facets_share_a_topic_when_it_is_declared() -> None:
    names = topology(facet_toml=SHARED)

    assert names.facet("billing.Pay") == names.facet("billing.Refund") == "afl.events.billing"
    specs = [spec for spec in names.specs(["billing.Pay", "billing.Refund"]) if spec.name == "afl.events.billing"]
    assert [(spec.partitions, spec.settings["retention.ms"]) for spec in specs] == [(24, "1209600000")]


def test_the_pattern_matches_topics_of_facets_and_no_others() -> None:
    names = topology(facet_toml=SHARED)

    assert names.facet_pattern().startswith("^")
    for topic in ("afl.events.a.B", "afl.events.billing"):
        assert re.match(names.facet_pattern(), topic)
        assert names.is_facet_topic(topic)
    for topic in ("afl.control", "aflxevents.a.B", "afl.dlq.events.a.B", "other.afl.events.a.B", "afl.events."):
        assert not re.match(names.facet_pattern(), topic)
        assert not names.is_facet_topic(topic)


def test_where_the_template_is_the_facet_alone_the_other_topics_are_told_apart() -> None:
    names = topology(facet_template="{facet}")

    assert names.is_facet_topic("billing.Pay")
    for topic in ("afl.control", "afl.schemas", "afl.dlq.billing.Pay", "__consumer_offsets"):
        assert not names.is_facet_topic(topic)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x =", "file: found"),
        (CONTROL.replace('name = "{prefix}control"', ""), "name: found None, expected a string"),
        (CONTROL.replace('partitions = "control_partitions"', "partitions = 0"), "partitions: found 0, expected"),
        (CONTROL.replace('partitions = "control_partitions"', 'partitions = "many"'), "partitions: found 'many'"),
        (CONTROL.replace('"delete"', '"shred"'), "cleanup_policy: found 'shred', expected one of delete"),
        (CONTROL.replace("retention_ms = 604_800_000", ""), "retention_ms: found None"),
        (CONTROL.replace('key = "All', 'keys = "All'), "why: found .* expected a sentence for each of key"),
        ("colour = 1\n" + CONTROL, "colour: found 1, expected one of"),
        ("shared = []\n" + CONTROL, "shared: found"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_named_with_file_and_key(text: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=f"control.toml: {said}"):
        parse_declaration("control", text, "control.toml")


@pytest.mark.parametrize(
    ("addition", "said"),
    [
        ("[[shared]]\ntopic = 'x'", "shared: found"),
        (
            "[[shared]]\ntopic = 'x'\nfacets = ['a']\n[[shared]]\ntopic = 'y'\nfacets = ['a']",
            "shared.facets: found 'a'",
        ),
        ("[sizes.a]\ncolour = 1", "sizes.a.colour: found 1"),
        ("[sizes.a]\npartitions = -1", "sizes.a.partitions: found -1"),
    ],
)
def test_a_facets_own_declarations_are_checked(addition: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        parse_declaration("facet", FACET + "\n" + addition, "facet.toml")


def test_a_directory_replaces_shipped_declarations_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "schemas.toml").write_text(topic_texts()["schemas"].replace("partitions = 1", "partitions = 2"))

    declarations = load_declarations(tmp_path)

    assert declarations["schemas"].partitions == 2
    assert declarations["control"] == load_declarations()["control"]


def test_a_directory_with_a_file_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "contorl.toml").write_text(CONTROL)

    with pytest.raises(DeclarationError, match="file name: found 'contorl'"):
        load_declarations(tmp_path)
