"""The most partitions that a deployment may have: clusters that others pay for, or run, have limits."""

from __future__ import annotations

from collections.abc import Sequence

from afl_stream.errors import TooManyPartitions
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import PlanAction, TopicPlan
from afl_stream.transport import Admin


def require_budget(config: StreamConfig, admin: Admin, plans: Sequence[TopicPlan]) -> None:
    """Raise TooManyPartitions when topics to create would give the deployment more than `topics.max_partitions`.

    What counts is every topic under the prefix, of other programs too; Kafka's own, which begin with `__`, do not.
    """
    budget = config.topics.max_partitions
    created = {plan.spec.name: plan.spec.partitions for plan in plans if plan.action is PlanAction.CREATE}
    if budget is None or not created:
        return
    names = [name for name in admin.topic_names() if name.startswith(config.prefix) and not name.startswith("__")]
    there = sum(topic.partitions for name, topic in admin.topics(names).items() if name not in created)
    if there + sum(created.values()) > budget:
        raise TooManyPartitions(created, there, budget)
