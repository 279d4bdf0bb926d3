"""Times as people write them, for tests about firings."""

from datetime import UTC, datetime


def ms(text: str) -> int:
    """Return a time of UTC in milliseconds since the epoch."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def shown(at_ms: int | None) -> str | None:
    """Return a time as text, in UTC."""
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
