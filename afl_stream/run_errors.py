"""Errors of commands about runs: a run to move to another version that is not there, and ids that are in use."""

from __future__ import annotations

from afl.core.text.printable import printable
from afl_stream.errors import StreamError

#: Characters that are shown of a name or value from outside.
_SHOWN_CHARS = 60


class NothingToMigrate(StreamError):
    """The workflow to move to another version of its program was never started, or is purged."""

    def __init__(self, workflow_id: str, *, is_purged: bool) -> None:
        why = ": it has ended and was purged" if is_purged else ""
        super().__init__(f"there is no workflow {workflow_id} to move to another version{why}")
        self.workflow_id = workflow_id


class IdInUse(StreamError):
    """A start that is only for a new run names the id of one that exists, or has existed."""

    def __init__(self, workflow_id: str, name: str, status: str) -> None:
        super().__init__(
            f"workflow {workflow_id} exists already: it runs {name}, and is {status}; the start asks for a new run "
            "(if-exists is refuse): choose another id"
        )
        self.workflow_id, self.name, self.status = workflow_id, name, status


class IfExistsUnknown(StreamError):
    """The header of a start about a run that exists already says nothing that an evaluator knows."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"header afl_if_exists is {printable(found, _SHOWN_CHARS)!r}: use takes the run that exists, refuse starts "
            "only a new one; leave it out to compare the two starts"
        )
