"""Topics whose cleanup.policy would lose needed records: each service logs them when it starts."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from afl_stream.topics.declared import ExistingTopic, Topology
from afl_stream.transport import Admin

_log = logging.getLogger(__name__)

_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
#: What the wrong policy does to a topic's records.
_DELETES: Final = (
    "the records of {0} are deleted once they are as old as its retention, while they are still needed: events and "
    "answers cannot be read without their schemas, and workflows cannot be started without their programs"
)
_DELETES_STATE: Final = (
    "the events of requests on {0} are deleted once they are as old as its retention, and requests that wait, or are "
    "asked again, are lost with them"
)
_COMPACTS: Final = "compaction keeps only the last record of each key in {0}, even if the others were not read yet"


def warn_of_unsafe_policies(
    topology: Topology, admin: Admin, topics: Iterable[str], bootstrap: str | None = None
) -> None:
    """Log an error for each of these topics that has an unsafe policy, with the command that corrects it.

    Topics that do not exist, and settings that this user may not see, are left out. Raises what the transport raises.
    """
    for finding in unsafe_policies(topology, admin.topics(topics), bootstrap):
        _log.error("%s", finding)


def unsafe_policies(
    topology: Topology, existing: Mapping[str, ExistingTopic], bootstrap: str | None = None
) -> list[str]:
    """Return for each topic with an unsafe policy what it loses, and the command that corrects it."""
    kept_whole = (topology.definitions(), topology.schemas())
    findings = []
    for name, found in sorted(existing.items()):
        policy = found.settings.get(_POLICY)
        if policy is None:
            continue
        policies = {word.strip() for word in policy.split(",")}
        is_state = topology.is_pubsub_state(name)
        if (name in kept_whole or is_state) and policies != {_COMPACT}:
            why, right = _DELETES_STATE if is_state else _DELETES, _COMPACT
        elif name not in (*kept_whole, topology.presence()) and not is_state and _COMPACT in policies:
            why, right = _COMPACTS, "delete"
        else:
            continue
        remedy = _mending(name, right, bootstrap)
        findings.append(
            f"topic {name} has {_POLICY}={policy}, not {right}: {why.format(name)}. Correct it with: {remedy}"
        )
    return findings


def _mending(topic: str, policy: str, bootstrap: str | None) -> str:
    words = ["kafka-configs.sh", "--bootstrap-server", bootstrap or "HOST:PORT", "--alter"]
    words += ["--entity-type", "topics", "--entity-name", topic, "--add-config", f"{_POLICY}={policy}"]
    return shlex.join(words)
