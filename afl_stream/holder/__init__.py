"""The holder of an embedded log, and its guests: other processes use the log through a socket beside it."""

from typing import TYPE_CHECKING

from afl.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl_stream.holder.guest import GuestTransport as GuestTransport
    from afl_stream.holder.serving import HolderSocket as HolderSocket

_HOMES = {
    "afl_stream.holder.guest": "GuestTransport",
    "afl_stream.holder.serving": "HolderSocket",
}

__all__ = ["GuestTransport", "HolderSocket"]

if not TYPE_CHECKING:
    # Out of sight of type checkers: they would take any name for one of this package.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "joining",
    "serving",
)
