"""The report that a store of an older format has become one of this release."""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)


def report_migration(store: str, found: int, now: int) -> None:
    """Warn that a store was migrated: there is no way back but a backup, which an operator should know at once."""
    _log.warning(
        "the store %s was of format %d and is now of format %d: older releases refuse it from now on, so going back "
        "means restoring a backup",
        store,
        found,
        now,
    )
