"""The topics of a deployment: declared, sized and compared with the broker."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.topics.declared import FIXED_KINDS as FIXED_KINDS
    from afl_stream.topics.declared import PlanAction as PlanAction
    from afl_stream.topics.declared import TopicPlan as TopicPlan
    from afl_stream.topics.declared import TopicSpec as TopicSpec
    from afl_stream.topics.declared import Topology as Topology
    from afl_stream.topics.declared import check_topic_name as check_topic_name

_HOMES = {
    "afl_stream.topics.declared": "FIXED_KINDS PlanAction TopicPlan TopicSpec Topology check_topic_name",
}

__all__ = ["FIXED_KINDS", "PlanAction", "TopicPlan", "TopicSpec", "Topology", "check_topic_name"]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "acl_exports",
    "acls",
    "budget",
    "creation",
    "declarations",
    "declared",
    "exports",
    "policies",
    "rights",
)
