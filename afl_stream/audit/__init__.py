"""The audit: a line of JSON for each record of a deployment."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.audit.audit import Audit as Audit
    from afl_stream.audit.config import AuditConfig as AuditConfig

_HOMES = {
    "afl_stream.audit.audit": "Audit",
    "afl_stream.audit.config": "AuditConfig",
}

__all__ = ["Audit", "AuditConfig"]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "audit",
    "config",
    "filters",
    "following",
    "group",
    "metrics",
    "parquet_sink",
    "sinks",
    "sqlite_sink",
    "verifying",
)
