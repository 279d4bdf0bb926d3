"""The failure of a commit on top of which a later batch was being computed."""

from __future__ import annotations

from afl_stream.errors import StreamError


class EarlierCommitFailed(StreamError):
    """What was computed on top of a commit must be dropped: the commit has failed. `error` says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the batch before was not committed: {error}")
        self.error = error
