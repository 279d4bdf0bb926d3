"""The topics of an agent's facets: which it needs, which groups read them, and which were deleted meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from afl.core.text.near_names import names_alike
from afl_stream.agent.handlers import NoHandlers
from afl_stream.agent.resources import AgentConfig
from afl_stream.agent.subscriptions import Subscription
from afl_stream.topics.declared import Topology
from afl_stream.transport import Admin, BrokerUnavailable

log = logging.getLogger(__name__)

#: How long the broker's list of topics is used while a wanted topic is missing in it.
TOPICS_AGE_S: Final = 2.0


class FacetTopics:
    """The part of a deployment's topology that concerns one agent's facets."""

    def __init__(self, topology: Topology, config: AgentConfig) -> None:
        self._topology = topology
        self._config = config

    def known_facets(self, topics: Iterable[str]) -> list[str]:
        """Return the facets that have a topic among these."""
        facets = [facet for topic in topics for facet in self._topology.facets_of(topic)]
        return [facet for facet in facets if self._topology.carries(facet)]

    def carried(self, facets: Sequence[str]) -> list[str]:
        """Return those that have topics. Raises NoHandlers where all are tasks."""
        carried = [facet for facet in facets if self._topology.carries(facet)]
        if facets and not carried:
            raise NoHandlers(
                f"events of {', '.join(facets)} are tasks in this deployment (dispatch.*): pollers handle them, not "
                "agents"
            )
        return carried

    def require(self, existing: frozenset[str], facets: Iterable[str], admin: Admin) -> None:
        """Raise TopicMissing when the answers or these facets need a topic that does not exist."""
        topology, facets = self._topology, list(facets)
        needed = {topology.control(): "answers"}
        for facet in facets:
            topic = topology.facet(facet)
            needed.setdefault(topic, f"facet {facet}")
            needed.setdefault(topology.dlq(topic), f"dead letters of facet {facet}")
        missing = next((topic for topic in needed if topic not in existing), None)
        if missing is not None:
            purpose = needed[missing]
            wanted = set(facets)
            known = [facet for facet in self.known_facets(existing) if facet not in wanted]
            # Only here: an agent loads no module that it does not need.
            from afl_stream.acls import not_listed

            role = " ".join(["--role agent", *(f"--facet {facet}" for facet in sorted(wanted))])
            raise not_listed(admin, missing, purpose, role, names_alike(purpose.removeprefix("facet "), known))

    def subscriptions(self, facets: Iterable[str]) -> list[Subscription]:
        """Return the groups to join, with the facets and topics of each."""
        topology = self._topology
        groups: dict[str, list[str]] = {}
        for facet in facets:
            groups.setdefault(self._config.group or self._config.stream.agent_group(facet), []).append(facet)
        return [
            Subscription(
                group=group,
                facets=frozenset(names),
                topics={topology.facet(name): topology.is_shared(topology.facet(name)) for name in names},
            )
            for group, names in groups.items()
        ]


class VanishedTopics:
    """Topics that were deleted while an agent read them: it continues with its other facets until they exist again.

    `look` asks the broker, so the agent's lock is not held meanwhile; `mark_missing` and `mark_found` are called under
    the lock.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        #: The facets that the agent is there for.
        self.wanted_facets: tuple[str, ...] = ()
        self._gone: frozenset[str] = frozenset()
        self._looked_s = float("-inf")

    def facets_here(self, facets: Sequence[str] | None = None) -> list[str]:
        """Return those of these facets, or of the wanted ones, whose topic exists."""
        asked = self.wanted_facets if facets is None else facets
        return [facet for facet in asked if self._topology.facet(facet) not in self._gone]

    def mark_missing(self, topic: str) -> bool:
        """Note that a topic does not exist any more; return False, and note nothing, when no other topic is left."""
        gone = self._gone | {topic}
        if all(self._topology.facet(facet) in gone for facet in self.wanted_facets):
            return False
        self._gone = gone
        log.error(
            "topic %s does not exist any more; the agent continues with its other facets until the topic exists again",
            topic,
        )
        return True

    def is_looked_for(self, now_s: float) -> bool:
        """Return whether it is time to check which topics exist again."""
        return bool(self._gone) and now_s - self._looked_s >= TOPICS_AGE_S

    def look(self, now_s: float, topic_names: Callable[[], frozenset[str]]) -> frozenset[str]:
        """Return the topics that the broker has again; none when it does not answer."""
        self._looked_s = now_s
        try:
            return self._gone & topic_names()
        except BrokerUnavailable as error:
            log.debug("could not check whether topics exist again: %s", error)
            return frozenset()

    def mark_found(self, back: frozenset[str]) -> None:
        """Note that these topics exist again."""
        self._gone -= back
        log.warning("topics that exist again and are read: %s", ", ".join(sorted(back)))
