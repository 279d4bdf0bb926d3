"""Whether evaluators are there for a run, and whether they have read what is for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from afl.core.clock import epoch_ms
from afl.core.text.printable import printable
from afl_stream.evaluator.parts.part_locks import is_held
from afl_stream.partitioner import partition_for
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.store_parts import StorePart, part_path
from afl_stream.visibility.waiting.broker_view import BrokerView, Unread
from afl_stream.visibility.waiting.report import Cause, CauseCode
from afl_stream.wire.messages import Pause

#: An evaluator writes its claim every 30 s: one that is older than this is of evaluators that have ended.
_CLAIM_HOLDS_MS: Final = 90_000


def evaluator_causes(config: StreamConfig, view: BrokerView, workflow_id: str, unread: Sequence[Unread]) -> list[Cause]:
    """Return that no evaluator is there, or that those which are have not read what is for the run."""
    group = config.evaluator_group
    found = view.group(group)
    if found is None:
        return []
    behind = [one for one in unread if one.behind]
    part = _part_of(config, view, workflow_id)
    if not found.members and (part is None or not _is_claimed(view, part) or _is_let_go(config, part)):
        seen = _last_seen(view)
        waits = f"; {_unread_text(behind)}" if behind else ""
        whose = f"group {group} has no members" if part is None else f"none has part {part} of the store, with this run"
        text = f"no evaluator is there: {whose}{seen if part is None else ''}{waits}"
        return [Cause(code=CauseCode.NO_EVALUATOR, text=text, commands=(("evaluator",),))]
    # One record more or less is on its way at any time.
    late = [one for one in behind if one.found]
    if not late:
        return []
    text = f"the evaluators of group {group} are behind: {_unread_text(late)}"
    return [Cause(code=CauseCode.EVALUATOR_BEHIND, text=text)]


def pause_text(pause: Pause) -> str:
    """Return in words what is paused, since when, and why."""
    what = "everything is paused" if pause.scope == "all" else f"{pause.scope} {printable(pause.name, 200)} is paused"
    why = "" if not pause.reason else f" ({printable(pause.reason, 200)})"
    return f"{what} since {time_text(pause.at)}{why}"


def time_text(at_ms: int) -> str:
    """Return a time as people here read it."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d %H:%M:%S") if at_ms else "an unknown time"


def _unread_text(behind: Sequence[Unread]) -> str:
    listed = []
    for one in behind:
        ours = f", {len(one.found):,} of them of this run" if one.found else ""
        offsets = f"{one.behind:,} unread offset{'s' * (one.behind != 1)}"
        listed.append(f"{one.partition.topic}[{one.partition.partition}] has {offsets}{ours}")
    return "; ".join(listed)


def _part_of(config: StreamConfig, view: BrokerView, workflow_id: str) -> StorePart | None:
    """Return the part of the store that a run is in, where evaluators of parts were there a moment ago: those are
    members of no group. None where they were not.
    """
    latest = max(_claimed_parts(view), key=lambda found: found[1], default=None)
    if latest is None:
        return None
    count = latest[0].count
    return StorePart(partition_for(workflow_id.encode(), config.topics.control_partitions) % count + 1, count)


def _is_claimed(view: BrokerView, part: StorePart) -> bool:
    """Return whether an evaluator had this part a moment ago. The first part is claimed as a whole store is."""
    if part.number > 1:
        return any(claimed == part for claimed, _ in _claimed_parts(view))
    claim = view.definitions.deployment_claims.current
    return claim is not None and _is_recent(claim.at)


def _is_let_go(config: StreamConfig, part: StorePart) -> bool:
    """Return whether the part's file is on this machine, and no process has it: a claim outlives its evaluator."""
    if config.store.url is not None:
        return False
    return is_held(part_path(config.store_path, part)) is False


def _claimed_parts(view: BrokerView) -> list[tuple[StorePart, int]]:
    """Return the further parts of a store that evaluators had a moment ago, and when."""
    parts = ((StorePart.parse(key.rpartition(":")[2]), at) for key, at in view.definitions.part_claims.items())
    return [(part, at) for part, at in parts if part is not None and _is_recent(at)]


def _is_recent(at_ms: int) -> bool:
    return epoch_ms() - at_ms < _CLAIM_HOLDS_MS


def _last_seen(view: BrokerView) -> str:
    claim = view.definitions.deployment_claims.current
    if claim is None:
        return ", and none has ever been"
    return f"; the last one was seen at {time_text(claim.at)} on {printable(claim.host, 100)}"
