"""The embedded transport: the port over a broker in this process."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.embedded.faults import Faults as Faults
    from afl_stream.embedded.transport import EmbeddedTransport as EmbeddedTransport

_HOMES = {
    "afl_stream.embedded.transport": "EmbeddedTransport",
    "afl_stream.embedded.faults": "Faults",
}

__all__ = ["EmbeddedTransport", "Faults"]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "file",
    "transport",
)
