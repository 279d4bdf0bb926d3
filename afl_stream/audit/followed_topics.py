"""The topics that an audit reads: some by name, and those of all facets, which may be created later."""

from __future__ import annotations

from afl_stream.acls import not_listed
from afl_stream.audit.config import AuditConfig
from afl_stream.topics.declared import Topology
from afl_stream.topics.policies import warn_of_unsafe_policies
from afl_stream.transport import Admin


class FollowedTopics:
    """Says which topics an audit follows."""

    def __init__(self, topology: Topology, config: AuditConfig) -> None:
        self._topology = topology
        self._config = config
        #: The topics without which there is nothing to audit, in the order in which they are asked for.
        self.required = [
            topology.control(),
            *[topology.commands()] * config.commands,
            *[topology.external()] * config.external,
            *[topology.lifecycle()] * config.lifecycle,
        ]
        self._follows: dict[str, bool] = dict.fromkeys(self.required, True)

    @property
    def pattern(self) -> str:
        """A regular expression for the other topics, as consumers subscribe to it. It may match more."""
        topology = self._topology
        return topology.facet_and_dead_letter_pattern() if self._config.dead_letters else topology.facet_pattern()

    def __contains__(self, topic: object) -> bool:
        """Return whether a topic is followed: the pattern of a template without a prefix matches others too."""
        name = str(topic)
        if name not in self._follows:
            is_letters = self._config.dead_letters and self._topology.is_dead_letters(name)
            self._follows[name] = is_letters or self._topology.is_facet_topic(name)
        return self._follows[name]

    def check(self, admin: Admin) -> None:
        """Raise TopicMissing for a required topic that does not exist; warn of topics that drop records."""
        existing = admin.topic_names()
        for topic in self.required:
            if topic not in existing:
                raise not_listed(admin, topic, "the audit", "--role audit")
        looked_at = [self._topology.schemas(), *self.required]
        warn_of_unsafe_policies(self._topology, admin, looked_at, self._config.stream.kafka.bootstrap)
