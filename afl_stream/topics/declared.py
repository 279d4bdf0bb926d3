"""The topics of a deployment: their names, their sizes, and how they differ from what the broker has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from afl_stream.errors import (
    DeclarationError,
    PartitionsDiffer,
    TooFewBrokers,
    TooFewPartitions,
    TopicMissing,
    TopicTooSmall,
)
from afl_stream.limits import RECORD_OVERHEAD_BYTES
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declarations import TopicDeclaration, load_declarations
from afl_stream.topics.topic_names import check_topic_name as check_topic_name
from afl_stream.topics.topic_names import claim, quoted

#: Topics that every deployment has once, facets and dead letters aside.
FIXED_KINDS: Final = ("control", "commands", "external", "lifecycle", "definitions", "schemas")
#: Topics that records are read from and dead-lettered; the others are read by people and tools.
_DEAD_LETTERED_KINDS: Final = ("control", "commands", "external")
#: Topics that share the workflows out in the same way: one evaluator owns a workflow's partition of all three.
_CO_PARTITIONED_KINDS: Final = ("control", "commands", "external")
#: Replicas of a topic without any setting, if there are enough brokers.
USUAL_REPLICATION: Final = 3
#: Kafka's default for a topic without a setting.
_KAFKA_MAX_MESSAGE_BYTES: Final = 1_048_588

#: Topics of texts, not of records with a schema.
_WITHOUT_RECORDS: Final = ("schemas",)


class PlanAction(StrEnum):
    """The action of `topics apply` for a topic. Values are printed: never change one."""

    CREATE = "create"
    OK = "ok"
    DIFFERS = "differs"


class ExistingTopic(Protocol):
    """A topic as the broker describes it; `settings` are the topic's own, by Kafka's names."""

    @property
    def partitions(self) -> int: ...

    @property
    def replication(self) -> int: ...

    @property
    def settings(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic as it is declared; `settings` are Kafka's, by Kafka's names.

    `is_replication_chosen`: no setting gives the number of replicas, so it is what the brokers allow, three at most.
    """

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]
    is_replication_chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """The action for one topic. `differences` says in words what is not as declared."""

    spec: TopicSpec
    action: PlanAction
    differences: tuple[str, ...] = ()
    #: How many partitions the topic has now; None: it is missing.
    found_partitions: int | None = None


class Topology:
    """Names and sizes of every topic of one deployment.

    Raises TopicNameRefused for a name that is invalid in Kafka, and DeclarationError when control, commands and
    external are declared with another number of partitions than `topics.control_partitions`.
    """

    def __init__(self, config: StreamConfig, declarations: Mapping[str, TopicDeclaration] | None = None) -> None:
        self._config = config
        self._declared = declarations or load_declarations(config.topics.declarations)
        self._fixed = {kind: self._filled(self._declared[kind].name) for kind in FIXED_KINDS}
        self._shared = {facet: self._filled(topic) for facet, topic in self._declared["facet"].shared.items()}
        self._presence = self._filled(self._declared["presence"].name)
        for name in (*self._fixed.values(), self._presence, *self._shared.values()):
            check_topic_name(name)
        wanted = config.topics.control_partitions
        for kind in _CO_PARTITIONED_KINDS:
            declared = self._count(self._declared[kind].partitions)
            if declared != wanted:
                expected = f"{wanted}, the setting topics.control_partitions: the same for control, commands, external"
                raise DeclarationError(f"topics/{kind}.toml", "partitions", declared, expected)

    @property
    def config(self) -> StreamConfig:
        """The settings by which these topics are named and sized."""
        return self._config

    @property
    def evaluator_group(self) -> str:
        """The group of the evaluators."""
        return self._config.evaluator_group

    def control(self) -> str:
        """Return the topic of the answers."""
        return self._fixed["control"]

    def commands(self) -> str:
        """Return the topic of the commands."""
        return self._fixed["commands"]

    def external(self) -> str:
        """Return the topic of the external events."""
        return self._fixed["external"]

    def lifecycle(self) -> str:
        """Return the topic of the milestones."""
        return self._fixed["lifecycle"]

    def definitions(self) -> str:
        """Return the topic of the compiled programs."""
        return self._fixed["definitions"]

    def schemas(self) -> str:
        """Return the topic of the writer schemas."""
        return self._fixed["schemas"]

    def presence(self) -> str:
        """Return the topic on which processes announce themselves. A deployment works without it, too."""
        return self._presence

    def facet(self, facet: str) -> str:
        """Return the topic of a facet's events."""
        shared = self._shared.get(facet)
        return shared if shared is not None else check_topic_name(self._filled(self._declared["facet"].name, facet))

    def carries(self, facet: str) -> bool:
        """Return whether this facet's events go to a topic: by the settings they may be tasks in the store instead."""
        return self._config.dispatch.is_topic(facet)

    def is_shared(self, topic: str) -> bool:
        """Return whether `topics/` declares this topic for events of several facets."""
        return topic in self._shared.values()

    def has_several_schemas(self, topic: str) -> bool:
        """Return whether this topic carries several record types, or the events of several facets."""
        kind = next((kind for kind, name in self._fixed.items() if name == topic), None)
        return self.is_shared(topic) or (kind is not None and len(self._declared[kind].value) > 1)

    def record_schemas(self) -> dict[str, tuple[str, ...]]:
        """Return the shipped schemas of the records of each topic that every deployment has once."""
        return {name: self._declared[kind].value for kind, name in self._fixed.items() if kind not in _WITHOUT_RECORDS}

    def shared_topics(self) -> tuple[str, ...]:
        """Return the topics that `topics/` declares for events of several facets."""
        return tuple(sorted(set(self._shared.values())))

    def facets_of(self, topic: str) -> tuple[str, ...]:
        """Return the facets whose events a topic carries, as far as names and `topics/` say; none for other topics."""
        shared = tuple(sorted(facet for facet, name in self._shared.items() if name == topic))
        if shared or not self.is_facet_topic(topic):
            return shared
        before, _, after = self._filled(self._config.topics.facet_template, "\0").partition("\0")
        return (topic[len(before) : len(topic) - len(after)],)

    def dlq(self, original: str) -> str:
        """Return the dead letter topic of a topic."""
        rest = original.removeprefix(self._config.prefix)
        return check_topic_name(self._filled(self._declared["dlq"].name).replace("{original}", rest))

    def is_dead_letters(self, topic: str) -> bool:
        """Return whether a topic of this name has dead letters."""
        before, _, after = self._filled(self._declared["dlq"].name).partition("{original}")
        return len(topic) > len(before + after) and topic.startswith(before) and topic.endswith(after)

    def facet_and_dead_letter_pattern(self) -> str:
        """Return a regular expression that every topic of events or of dead letters matches; see `facet_pattern`."""
        before, _, after = self._filled(self._declared["dlq"].name).partition("{original}")
        return f"{self.facet_pattern()[:-2]}|{quoted(before)}.+{quoted(after)})$"

    def pubsub(self, workflow: str, topic: str) -> str:
        """Return the topic that carries a topic of an event-driven workflow."""
        return check_topic_name(self._of_workflow("pubsub", workflow).replace("{topic}", topic))

    def pubsub_state(self, workflow: str) -> str:
        """Return the topic that stores the requests of an event-driven workflow."""
        return check_topic_name(self._of_workflow("pubsub_state", workflow))

    def is_pubsub_state(self, topic: str) -> bool:
        """Return whether a topic of this name stores the requests of some event-driven workflow."""
        before, _, after = self._filled(self._declared["pubsub_state"].name).partition("{workflow}")
        return (
            topic.startswith(before)
            and topic.endswith(after)
            and "." not in topic[len(before) : len(topic) - len(after)]
        )

    def facet_pattern(self) -> str:
        """Return a regular expression that every facet's topic matches, as consumers subscribe to it: it begins with ^.

        Where the template is `{facet}` alone it matches other topics too: ask `is_facet_topic` about each.
        """
        before, _, after = self._filled(self._config.topics.facet_template, "\0").partition("\0")
        patterns = [f"{quoted(before)}.+{quoted(after)}", *map(quoted, self.shared_topics())]
        return f"^({'|'.join(patterns)})$"

    def is_facet_topic(self, topic: str) -> bool:
        """Return whether this is a topic of events: it matches the pattern and is none of the others."""
        of_workflows = self._filled(self._declared["pubsub"].name).partition("{")[0]
        others = (self._presence, *self._fixed.values())
        if topic in others or topic.startswith((self.dlq("x").removesuffix("x"), of_workflows, "__")):
            return False
        return re.fullmatch(self.facet_pattern(), topic) is not None

    def check_names(self, facets: Iterable[str]) -> None:
        """Refuse facets whose topics have names that are invalid in Kafka, or that its metrics would not tell apart.

        Kafka's metrics turn dots into underscores, so it refuses `a_b.C` beside `a.b_C`. Two facets have one topic only
        when `topics/` says so. Raises TopicNameRefused.
        """
        claimed: dict[str, tuple[str, str]] = {}
        for kind, name in (*self._fixed.items(), ("presence", self._presence)):
            claim(claimed, name, f"the {kind} topic")
        for facet in sorted(set(facets)):
            topic = self.facet(facet)
            claim(claimed, topic, f"topic {topic}" if facet in self._shared else f"facet {facet}")
        for topic, _ in list(claimed.values()):
            claim(claimed, self.dlq(topic), f"the dead letters of {topic}")

    def specs(self, facets: Iterable[str], brokers: int | None = None) -> list[TopicSpec]:
        """Return every topic that a deployment with these facets needs, in order of name kinds.

        `brokers` limits the replicas of the topics for which no number is set.
        """
        facets = sorted(facet for facet in set(facets) if self.carries(facet))
        self.check_names(facets)
        specs = {name: self.spec(kind, name, brokers) for kind, name in self._fixed.items()}
        read = [self._fixed[kind] for kind in _DEAD_LETTERED_KINDS]
        for facet in facets:
            name = self.facet(facet)
            spec = self.spec("facet", name, brokers, self._declared["facet"].sizes.get(facet, {}))
            # A shared topic must suit the most demanding of its facets.
            specs[name] = spec if name not in specs else _larger(specs[name], spec)
            read.append(name)
        for name in dict.fromkeys(read):
            specs[self.dlq(name)] = self.spec("dlq", self.dlq(name), brokers)
        specs[self._presence] = self.spec("presence", self._presence, brokers)
        return list(specs.values())

    def _required(self, facets: Iterable[str]) -> list[TopicSpec]:
        """Return the topics without which nothing works."""
        return [spec for spec in self.specs(facets) if spec.name != self._presence]

    def names(self, facets: Iterable[str]) -> list[str]:
        """Return the name of every topic that a deployment with these facets needs."""
        return [spec.name for spec in self.specs(facets)]

    def plan(
        self, facets: Iterable[str], existing: Mapping[str, ExistingTopic], brokers: int | None = None
    ) -> list[TopicPlan]:
        """Return for every topic that is needed whether it is missing, as declared, or different, and in what.

        `brokers`: how many can hold copies; None: nothing is copied. Raises TooFewBrokers when a topic to create is
        declared with more replicas, or would get fewer than usual because a broker is away.
        """
        facets = list(facets)
        return self.plan_of(lambda copies: self.specs(facets, copies), existing, brokers)

    def plan_of(
        self,
        specs: Callable[[int | None], Sequence[TopicSpec]],
        existing: Mapping[str, ExistingTopic],
        brokers: int | None = None,
    ) -> list[TopicPlan]:
        """Plan topics as `plan` does: those that `specs` gives for a number of brokers."""
        by_copies = {n: {s.name: s for s in specs(n)} for n in range(1, USUAL_REPLICATION + 1)}
        plans = []
        for spec in specs(brokers):
            found = existing.get(spec.name)
            if found is not None and spec.is_replication_chosen and spec.replication < found.replication:
                # More copies than brokers answer now: one of them is away, and the topic is as it should be.
                spec = by_copies[min(found.replication, USUAL_REPLICATION)][spec.name]
            plans.append(_planned(spec, found))
        if brokers is not None:
            self._require_brokers(plans, existing, brokers)
        return plans

    def _require_brokers(self, plans: Sequence[TopicPlan], existing: Mapping[str, ExistingTopic], brokers: int) -> None:
        """Raise TooFewBrokers if topics would be created with more copies than brokers, or for good with too few."""
        created = [plan.spec for plan in plans if plan.action is PlanAction.CREATE]
        asked = {spec.name: spec.replication for spec in created if spec.replication > brokers}
        if asked:
            raise TooFewBrokers(asked, brokers, self._config.topics.replication)
        if any(spec.is_replication_chosen and spec.replication < USUAL_REPLICATION for spec in created):
            # The number of copies is not raised later, so it must not depend on which brokers answer now.
            there = [plan.spec.name for plan in plans if plan.action is not PlanAction.CREATE]
            more = {name: copies for name in there if (copies := existing[name].replication) > brokers}
            if more:
                raise TooFewBrokers(more, brokers, None, is_one_away=True)

    def require(self, facets: Iterable[str], existing: Mapping[str, ExistingTopic]) -> None:
        """Refuse to start on topics that are missing or not as they must be.

        Raises TopicMissing, TopicTooSmall (bytes), PartitionsDiffer (control, commands and external) and
        TooFewPartitions (any other). More partitions than declared are accepted there.
        """
        needed_bytes = self._config.max_event_bytes + RECORD_OVERHEAD_BYTES
        for spec in self._required(facets):
            found = existing.get(spec.name)
            if found is None:
                raise TopicMissing(spec.name, self._purpose(spec.name, facets))
            limit = int(found.settings.get("max.message.bytes", _KAFKA_MAX_MESSAGE_BYTES))
            if limit < needed_bytes and spec.name != self.schemas():
                raise TopicTooSmall(spec.name, limit, needed_bytes)
        self._require_partitions(facets, existing)

    def require_together(self, existing: Mapping[str, ExistingTopic]) -> None:
        """Raise PartitionsDiffer when control, commands and external have not the partitions that are set."""
        expected, bootstrap = self._config.topics.control_partitions, self._config.kafka.bootstrap
        together = {self._fixed[kind]: existing[self._fixed[kind]].partitions for kind in _CO_PARTITIONED_KINDS}
        if set(together.values()) != {expected}:
            raise PartitionsDiffer(together, expected, bootstrap)

    def _require_partitions(self, facets: Iterable[str], existing: Mapping[str, ExistingTopic]) -> None:
        self.require_together(existing)
        bootstrap = self._config.kafka.bootstrap
        for spec in self._required(facets):
            found = existing[spec.name].partitions
            if found < spec.partitions:
                raise TooFewPartitions(spec.name, found, spec.partitions, bootstrap)

    def _purpose(self, topic: str, facets: Iterable[str]) -> str:
        mine = [facet for facet in sorted(set(facets)) if self.facet(facet) == topic]
        if mine:
            return f"events of {', '.join(mine)}"
        kinds = [kind for kind, name in self._fixed.items() if name == topic]
        return kinds[0] if kinds else "dead letters"

    def _of_workflow(self, kind: str, workflow: str) -> str:
        return self._filled(self._declared[kind].name).replace("{workflow}", workflow)

    def _filled(self, template: str, facet: str = "") -> str:
        name = template.replace("{facet_template}", self._config.topics.facet_template)
        return name.replace("{prefix}", self._config.prefix).replace("{facet}", facet)

    def spec(
        self, kind: str, name: str, brokers: int | None = None, sizes: Mapping[str, int] | None = None
    ) -> TopicSpec:
        """Return a topic of this name, as its kind is declared; `sizes` are counts of its own."""
        declared, sizes = self._declared[kind], sizes or {}
        is_chosen = "replication" not in sizes and self._is_chosen(declared.replication)
        if is_chosen:
            replication = USUAL_REPLICATION if brokers is None else min(USUAL_REPLICATION, brokers)
        else:
            replication = sizes.get("replication") or self._count(declared.replication)
        in_sync = sizes.get("min_insync_replicas", declared.min_insync_replicas)
        largest_bytes = sizes.get("max_message_bytes", declared.max_message_bytes)
        settings = {
            "cleanup.policy": declared.cleanup_policy,
            "max.message.bytes": str(max(largest_bytes, self._config.max_event_bytes + RECORD_OVERHEAD_BYTES)),
            # More replicas in sync than there are would refuse every record.
            "min.insync.replicas": str(min(in_sync, replication)),
        }
        retention = sizes.get("retention_ms", declared.retention_ms)
        if retention is not None:
            settings["retention.ms"] = str(retention)
        return TopicSpec(
            name=name,
            partitions=sizes.get("partitions", self._count(declared.partitions)),
            replication=replication,
            settings=settings,
            is_replication_chosen=is_chosen,
        )

    def _is_chosen(self, declared: int | str) -> bool:
        return isinstance(declared, str) and getattr(self._config.topics, declared) is None

    def _count(self, declared: int | str) -> int:
        return declared if isinstance(declared, int) else int(getattr(self._config.topics, declared))


def few_copies(plans: Iterable[TopicPlan], brokers: int) -> str | None:
    """Return a warning for the creator of these topics on a cluster with so few brokers; None: there are enough."""
    chosen = any(plan.action is PlanAction.CREATE and plan.spec.is_replication_chosen for plan in plans)
    if not chosen or brokers >= USUAL_REPLICATION:
        return None
    setting = f"topics.replication = {brokers} (AFL_TOPICS_REPLICATION={brokers}) says that this is meant"
    if brokers == 1:
        return (
            "the cluster has one broker, so each topic has one copy, and what that broker's disk loses is lost: "
            f"enough for trials; {setting}. With three brokers or more each topic has three copies"
        )
    return (
        f"the cluster has {brokers} brokers, so each topic has {brokers} copies, and all of them take each record: "
        f"while one broker is away nothing can be written; {setting}. With three brokers or more each topic has three "
        "copies"
    )


def _planned(spec: TopicSpec, found: ExistingTopic | None) -> TopicPlan:
    if found is None:
        return TopicPlan(spec=spec, action=PlanAction.CREATE)
    differences = [
        f"{what}: found {have}, declared {want}"
        for what, have, want in (
            ("partitions", found.partitions, spec.partitions),
            ("replication", found.replication, spec.replication),
        )
        if have != want
    ]
    for key, declared in sorted(spec.settings.items()):
        have_setting = found.settings.get(key)
        if have_setting != declared:
            shown = "the broker's default" if have_setting is None else have_setting
            differences.append(f"{key}: found {shown}, declared {declared}")
    action = PlanAction.DIFFERS if differences else PlanAction.OK
    return TopicPlan(spec=spec, action=action, differences=tuple(differences), found_partitions=found.partitions)


def _larger(one: TopicSpec, other: TopicSpec) -> TopicSpec:
    settings = {
        key: value if key == "cleanup.policy" else str(max(int(value), int(other.settings[key])))
        for key, value in one.settings.items()
    }
    return TopicSpec(
        name=one.name,
        partitions=max(one.partitions, other.partitions),
        replication=max(one.replication, other.replication),
        settings=settings,
        is_replication_chosen=one.is_replication_chosen and other.is_replication_chosen,
    )
