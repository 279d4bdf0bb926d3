"""Whether evaluators are there for a run, and whether they have read what is for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from afl.core.clock import epoch_ms
from afl.core.text.printable import printable
from afl_stream.settings.config import StreamConfig
from afl_stream.visibility.waiting.broker_view import BrokerView, Unread
from afl_stream.visibility.waiting.report import Cause, CauseCode
from afl_stream.wire.messages import Pause

#: An evaluator writes its claim every 30 s: one that is older than this is of evaluators that have ended.
_CLAIM_HOLDS_MS: Final = 90_000


def evaluator_causes(config: StreamConfig, view: BrokerView, unread: Sequence[Unread]) -> list[Cause]:
    """Return that no evaluator is there, or that those which are have not read what is for the run."""
    group = config.evaluator_group
    found = view.group(group)
    if found is None:
        return []
    behind = [one for one in unread if one.behind]
    if not found.members and not _has_claimed_lately(view):
        seen = _last_seen(view)
        waits = f"; {_unread_text(behind)}" if behind else ""
        text = f"no evaluator is there: group {group} has no members{seen}{waits}"
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


def _has_claimed_lately(view: BrokerView) -> bool:
    """Return whether evaluators of parts of a store were there a moment ago: those are members of no group."""
    return epoch_ms() - view.definitions.part_claimed_at_ms < _CLAIM_HOLDS_MS


def _last_seen(view: BrokerView) -> str:
    claim = view.definitions.deployment_claims.current
    if claim is None:
        return ", and none has ever been"
    return f"; the last one was seen at {time_text(claim.at)} on {printable(claim.host, 100)}"
