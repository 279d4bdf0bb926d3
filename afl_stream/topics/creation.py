"""The creation of topics that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from afl_stream.topics.declared import PlanAction, TopicPlan
from afl_stream.transport import Admin, AuthenticationFailed, BrokerUnavailable, TopicExists, TransportError


def create_missing(
    admin: Admin, plans: Iterable[TopicPlan], on_failure: Callable[[TopicPlan, TransportError], None] | None = None
) -> None:
    """Create the topics that the plans say are missing. Existing topics are not changed.

    A topic that cannot be created does not stop the others: `on_failure` is called for each. Without it the first
    failure is raised after all were tried. BrokerUnavailable and AuthenticationFailed end the call at once.
    """
    failures: list[TransportError] = []
    for plan in plans:
        if plan.action is not PlanAction.CREATE:
            continue
        spec = plan.spec
        try:
            admin.create_topic(
                spec.name, partitions=spec.partitions, replication=spec.replication, settings=spec.settings
            )
        except TopicExists:
            continue  # Another client was faster.
        except (BrokerUnavailable, AuthenticationFailed):
            raise
        except TransportError as error:
            failures.append(error)
            if on_failure is not None:
                on_failure(plan, error)
    if failures and on_failure is None:
        raise failures[0]
