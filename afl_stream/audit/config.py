"""The settings of an audit, and its counters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from afl_stream.audit.filters import AuditFilter
from afl_stream.reading.group_reader import LostRecords
from afl_stream.settings.config import StreamConfig
from afl_stream.transport import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditConfig:
    """The records that the audit follows besides events and answers, and its start.

    `from_beginning`: write everything that the log still holds, whatever was written or committed before.
    `lost_records`: what to do when retention was faster than the audit; with EARLIEST, a line of kind `lost` names the
    range. `group` None: `{prefix}audit`. `alone`: read every partition without a group, starting there, and commit
    nothing; `group` and `from_beginning` have no effect then. `wanted`: what is written of all that is read. Where it
    has a time to begin at, partitions without a committed offset, and all without a group, begin there.
    `continues_sink`: the group is the sink's own, so where the sink is behind the group's offsets it is filled up.
    """

    stream: StreamConfig = field(default_factory=StreamConfig)
    group: str | None = None
    from_beginning: bool = False
    alone: Start | None = None
    wanted: AuditFilter = field(default_factory=AuditFilter)
    continues_sink: bool = False
    lost_records: LostRecords = LostRecords.STOP
    commands: bool = False
    external: bool = False
    lifecycle: bool = False
    dead_letters: bool = False
    batch_records: int = 500
    poll_timeout_s: float = 0.2
    max_backoff_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCounts:
    """Counters since the start.

    `repeated`: records that the sink had already; `dropped`: those that were not wanted. `gaps`: places where offsets
    are missing, and `lost`: records that left the log before they were read.
    """

    written: int = 0
    dropped: int = 0
    gaps: int = 0
    lost: int = 0
    unreadable: int = 0
    repeated: int = 0
    commits: int = 0
    commit_failures: int = 0

    def plus(self, **more: int) -> AuditCounts:
        """Return the counters with these added."""
        return replace(self, **{name: getattr(self, name) + count for name, count in more.items()})
