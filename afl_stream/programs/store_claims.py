"""Claims of stores on the definitions topic, and which of them counts."""

from __future__ import annotations

from afl_stream.errors import Reason, Unreadable
from afl_stream.limits import MAX_CLAIM_NUMBER
from afl_stream.wire.messages import StoreClaim


class StoreClaims:
    """The claims as they were read, in the order of the log.

    A claim counts when its number is higher than that of the one before that counts: of two evaluators that claim at
    the same time, each with the next number, the first in the log has it. All claims have one key, so that they are in
    one partition, and compaction leaves the last.

    A writer to the topic may also write a number that cannot be exceeded. Of claims with the highest number each counts
    in its turn, so that there is always a next one: a deployment can be given another store.
    """

    def __init__(self) -> None:
        #: The one that counts.
        self.current: StoreClaim | None = None
        #: A later claim of another store, which does not count and would be all that compaction leaves.
        self._later: StoreClaim | None = None

    def take(self, claim: StoreClaim) -> None:
        """Take the next claim of the log. Raises Unreadable for a number that no evaluator writes."""
        if not 1 <= claim.number <= MAX_CLAIM_NUMBER:
            self._later = claim
            text = f"the claim of a store has the number {claim.number}, which is not among 1 to {MAX_CLAIM_NUMBER}"
            raise Unreadable(Reason.NUMBER_OUT_OF_RANGE, text)
        if self.current is None or claim.number > self.current.number or claim.number == MAX_CLAIM_NUMBER:
            self.current, self._later = claim, None
        elif claim.store != self.current.store:
            self._later = claim

    @property
    def is_contested(self) -> bool:
        """Return whether a claim that does not count came after the one that does: it must be written again then."""
        return self._later is not None

    @property
    def next_number(self) -> int:
        """The number of the claim that would count next."""
        return 1 if self.current is None else min(self.current.number + 1, MAX_CLAIM_NUMBER)
