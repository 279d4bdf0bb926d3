"""A record's headers by name, for tests that look at single ones."""

from afl_stream.transport import Record


def headers_of(record: Record) -> dict[str, bytes]:
    """Return the last header of each name, as clients take it; a null value is left out."""
    return {name: value for name, value in record.headers if value is not None}
