"""The store that a deployment has: its evaluators claim it, and every other store is refused by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from afl.compiled.program import CompiledProgram, ProgramError
from afl.core.clock import Clock, MonotonicClock, monotonic_s
from afl.core.probes import Probe, no_probe
from afl.core.process.stopping import PROCESS_STOP
from afl.core.text.printable import printable
from afl.engine.errors import StoreCorrupt, VersionMismatchError
from afl.engine.model.store_identity import new_mark, this_host
from afl.engine.planning.programs import stored_program
from afl.stores.public.persistence import EngineStore
from afl_stream.errors import SchemaUnavailable, StreamError
from afl_stream.evaluator.parts.own_part import OwnPart
from afl_stream.programs.definitions import Definitions
from afl_stream.topics.declared import Topology
from afl_stream.transport import Consumer, Stopping, TopicPartition, Transport
from afl_stream.wire.messages import StoreClaim

_log = logging.getLogger(__name__)

#: How often a running evaluator renews its claim.
CLAIM_INTERVAL_S: Final = 30.0
#: How often it looks whether another store was claimed, and whether the schemas and definitions are still there.
LOOK_INTERVAL_S: Final = 10.0
#: How long the other parts of a store wait for the claim of the first, and how often they look for it.
_FIRST_PART_S: Final = 60.0
_FIRST_PART_LOOK_S: Final = 0.1
#: Attempts to claim the deployment for a new store while evaluators of the other one claim it, too.
_MOST_ATTEMPTS: Final = 5
#: Newest runs whose programs are published again where the definitions topic knows nothing of the deployment.
_MOST_RUNS: Final = 1_000


class WrongStore(StreamError):
    """The deployment's evaluators have another store than this one."""

    def __init__(self, fact: str, group: str, records: int) -> None:
        self.fact, self.group, self.records = fact, group, records
        super().__init__(self.message_with("afl-stream evaluator --new-store"))

    def message_with(self, command: str) -> str:
        """Return the message, with the command that makes this store the deployment's."""
        if self.records:
            then = f"reads the {_records(self.records)} that this store has not read, and handlers do again the work of"
            then = f"{then} {'it' if self.records == 1 else 'them'}"
        else:
            then = "reads nothing again: this store has read all that the topics hold"
        return (
            f"{self.fact}. Nothing is read with this store. Run where the other one is, or name it (store.path, "
            f"store.url). If it is lost, put its backup there. Without one: {command} makes this one the deployment's "
            f"store; group {self.group} then {then}"
        )


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


class DeploymentStore:
    """The store of one evaluator, checked against the one that the deployment has.

    To claim the deployment, in this order:
      1. read the claims on the definitions topic, and refuse a store that is not the one they name (`claim.judged`),
      2. set a mark in the store (`claim.marked`),
      3. write a claim with the next number and this mark, and wait for its acknowledgement (`claim.published`),
      4. read the claims again: of two that were written at once the first counts, and the other evaluator ends.

    A crash before 3 leaves a mark that nothing refers to. A crash between 3 and 4 leaves a claim that counts, or one
    that every reader ignores and that the next evaluator of the right store replaces.

    Belongs to one thread.
    """

    def __init__(  # noqa: PLR0913 - wired by the service alone
        self,
        store: EngineStore,
        definitions: Definitions,
        transport: Transport,
        topology: Topology,
        clock: Clock,
        keep_announced: Callable[[], None],
        probe: Probe = no_probe,
        monotonic_s: MonotonicClock = monotonic_s,
        part: OwnPart | None = None,
    ) -> None:
        """Prepare to claim. `keep_announced` announces schemas again that are gone from their topic.

        With a `part` the store is that part of the deployment's, and only its partitions are looked at.
        """
        self._part = part
        self._keep_announced = keep_announced
        self._is_due = False
        self._store = store
        self._definitions = definitions
        self._transport = transport
        self._topics = (topology.control(), topology.commands(), topology.external())
        self._topology = topology
        self._group = topology.evaluator_group
        self._clock = clock
        self._probe = probe
        self._monotonic_s = monotonic_s
        self._location = store.location()
        self._claimed_s = self._looked_s = 0.0

    def claim(self, *, is_new: bool) -> None:
        """Claim the deployment for this store, before anything is read. `is_new`: also where it has another store.

        Raises WrongStore, SchemaUnavailable, and what the transport raises.
        """
        if self._part is not None:
            self._wait_for_first(self._part, is_new=is_new)
        attempts = _MOST_ATTEMPTS if is_new else 1
        while True:
            self._definitions.refresh()
            is_first = self._definitions.claims.current is None
            refusal = self._refusal_at_start()
            if refusal is not None:
                if not is_new:
                    raise refusal
                self._take_over(refusal)
            self._probe("claim.judged")
            self._write_claim()
            lost = self._lost_to()
            if lost is None:
                break
            attempts -= 1
            if not attempts:
                raise lost
        if is_first:
            self._definitions.restore(self._stored_programs())

    def _wait_for_first(self, part: OwnPart, *, is_new: bool) -> None:
        """Wait until the first part of our store has claimed the deployment: it decides for all of them.

        Raises WrongStore where another store has it, and Stopping.
        """
        deadline_s = self._monotonic_s() + _FIRST_PART_S
        while part.part.number > 1:
            self._definitions.refresh()
            if (other := self._other_deployment(part)) is None and self._definitions.deployment_claims.current:
                return
            if (other is not None and not is_new) or self._monotonic_s() > deadline_s:
                raise other or self._refusal("the first part of this store has not claimed the deployment")
            if PROCESS_STOP.wait(_FIRST_PART_LOOK_S):
                raise Stopping("the claim of the store's first part")

    def _other_deployment(self, part: OwnPart) -> WrongStore | None:
        """Return the refusal where the deployment has been claimed for another store than the one with our parts."""
        claim = self._definitions.deployment_claims.current
        if claim is None or claim.store == part.first_store_id:
            return None
        return self._refusal(f"{self._claimant(claim)}; this is {self._own_name()}, part {part.part} of another one")

    def look(self) -> None:
        """Check that the deployment still has this store, and renew the claim when that is due.

        With a part of the store, also check that its topics have no more partitions than the parts were divided by:
        nobody would read those.

        Raises WrongStore when another store, or a copy of this one, has been claimed since, and PartitionsDiffer.
        """
        self._looked_s = self._monotonic_s()
        if self._part is not None:
            self._topology.require_together(self._transport.admin().topics(self._topics))
        self._definitions.refresh()
        claims = self._definitions.claims
        if claims.current is not None and (lost := self._lost_to()) is not None:
            raise lost
        if self._part is not None and (lost := self._other_deployment(self._part)) is not None:
            raise lost
        is_due = self._monotonic_s() - self._claimed_s >= CLAIM_INTERVAL_S
        if is_due or claims.current is None or claims.is_contested:
            self._write_claim()
            if (lost := self._lost_to()) is not None:
                raise lost

    def look_soon(self) -> None:
        """Let the next `look_when_due` check the claim: a member has come or gone, maybe with another store."""
        self._is_due = True

    def look_when_due(self, broker_answers: Callable[[], bool] = lambda: True) -> None:
        """Check the claim when it is time to, and announce schemas again that are gone.

        Does nothing while the broker does not answer: the check would wait for it, and delay the report of an outage.
        Raises WrongStore. A check that fails is repeated later; no work waits for it.
        """
        if not self._is_due and self._monotonic_s() - self._looked_s < LOOK_INTERVAL_S:
            return
        if not broker_answers():
            return
        self._is_due = False
        try:
            self.look()
            self._keep_announced()
        except SchemaUnavailable as error:
            if PROCESS_STOP.is_set():
                return
            _log.warning("could not check whether the deployment still has this store: %s", error)

    def _stored_programs(self) -> Iterator[tuple[str, CompiledProgram]]:
        """Return the workflows that the store knows, each with the program of its newest run."""
        names: set[str] = set()
        for row in self._store.list_workflows(limit=_MOST_RUNS):
            if row.name in names:
                continue
            names.add(row.name)
            try:
                program = stored_program(self._store, row.program)
            except (ProgramError, StoreCorrupt, VersionMismatchError) as error:
                _log.warning("program %s of workflow %s cannot be published: %s", row.program, row.name, error)
                continue
            if program is not None:
                yield row.name, program

    # --- judging ------------------------------------------------------------------------------------------------

    def _refusal_at_start(self) -> WrongStore | None:
        claim, identity = self._definitions.claims.current, self._store.identity()
        if claim is None:
            return self._refusal_of_empty()
        if claim.store != identity.id:
            return self._refusal(f"{self._claimant(claim)}; this is {self._own_name()}")
        if claim.location == self._location:
            # Claims are renewed every 30 s: a copy may have the last one, and lack what was read since.
            if claim.mark not in identity.marks or self._is_behind():
                _log.warning(
                    "%s is older than what its evaluators had (%s): it was restored from a copy; reading continues "
                    "from its own positions, and handlers do again what was done since",
                    self._own_name(),
                    self._seen(claim),
                )
            return None
        if claim.mark not in identity.marks or self._is_behind():
            return self._refusal(
                f"{self._claimant(claim)}; this is a copy of it, or an older state: {self._own_name()}, and it lacks "
                "what was done there since"
            )
        # As every container's start looks: another host's name, and the same file.
        _log.info("%s was at %s before", self._own_name(), printable(claim.location, 300))
        return None

    def _refusal_of_empty(self) -> WrongStore | None:
        """Refuse a store that has read nothing while the group has committed offsets: they belong to another store."""
        if self._read_up_to():
            return None
        committed = self._committed()
        if not committed:
            return None
        listed = ", ".join(f"{topic}[{number}]: {offset}" for (topic, number), offset in sorted(committed.items()))
        return self._refusal(
            f"group {self._group} has committed offsets ({listed}), so its evaluators have a store; which one is not "
            f"on {self._definitions.topic}. This is {self._own_name()}, and it is empty"
        )

    def _lost_to(self) -> WrongStore | None:
        """Return why this store is not the deployment's any more, or None."""
        claim = self._definitions.claims.current
        # The marks that the store has now: other evaluators set theirs in it, too.
        identity = self._store.identity()
        if claim is None or (claim.store == identity.id and claim.mark in identity.marks):
            return None
        what = "a copy of it was claimed since" if claim.store == identity.id else "it was claimed since"
        return self._refusal(f"{self._claimant(claim)}; {what}, and this is {self._own_name()}")

    def _is_behind(self) -> bool:
        """Return whether the store has read less than its group has committed."""
        # Asked first: the offsets follow the store's positions, so those of one store are never behind.
        committed = self._committed()
        read = self._read_up_to()
        return any(read.get(partition, 0) < offset for partition, offset in committed.items())

    def _read_up_to(self) -> dict[TopicPartition, int]:
        """Return the next offset that the store has for each partition of this cluster."""
        cluster = self._transport.admin().cluster_id()
        read: dict[TopicPartition, int] = {}
        for position, offset in self._store.positions().items():
            if position.cluster_id == cluster:
                partition = TopicPartition(position.topic, position.partition)
                read[partition] = max(offset, read.get(partition, 0))
        return read

    def _committed(self) -> Mapping[TopicPartition, int]:
        reader = self._transport.consumer(self._group)
        try:
            return {partition: found.offset for partition, found in reader.committed(self._partitions()).items()}
        finally:
            reader.close()

    def _partitions(self) -> list[TopicPartition]:
        described = self._transport.admin().topics(self._topics)
        return [
            TopicPartition(name, number)
            for name, found in described.items()
            for number in range(found.partitions)
            if self._part is None or self._part.part.owns(number)
        ]

    # --- claiming -----------------------------------------------------------------------------------------------

    def _take_over(self, refusal: WrongStore) -> None:
        """Allow this store to be claimed although the deployment has another one."""
        claim = self._definitions.claims.current
        _log.warning(
            "the deployment gets a new store, as --new-store says: %s; group %s reads the %s that it has not read",
            refusal.fact,
            self._group,
            _records(refusal.records),
        )
        if claim is not None and claim.store == self._store.identity().id:
            # The other store is told from this one by its id, whatever was done with it meanwhile.
            self._store.renew_identity()

    def _write_claim(self) -> None:
        mark = new_mark()
        self._store.add_mark(mark)
        self._probe("claim.marked")
        claim = StoreClaim(
            store=self._store.identity().id,
            mark=mark,
            number=self._definitions.claims.next_number,
            location=self._location,
            host=this_host(),
            at=self._clock.now_ms(),
        )
        self._definitions.publish(self._definitions.claim_key, claim)
        self._probe("claim.published")
        self._definitions.refresh()
        self._claimed_s = self._monotonic_s()

    # --- telling ------------------------------------------------------------------------------------------------

    def _refusal(self, fact: str) -> WrongStore:
        return WrongStore(fact, self._group, self._unread())

    def _unread(self) -> int:
        """Return how many records the evaluators' topics hold that this store has not read."""
        reader: Consumer = self._transport.consumer(None)
        read = self._read_up_to()
        try:
            bounds = {partition: reader.watermarks(partition) for partition in self._partitions()}
        finally:
            reader.close()
        return sum(found.high - max(found.low, read.get(partition, 0)) for partition, found in bounds.items())

    def _own_name(self) -> str:
        return f"store {self._store.identity().id} at {self._location}"

    def _claimant(self, claim: StoreClaim) -> str:
        store, location = printable(claim.store, 100), printable(claim.location, 300)
        return f"the evaluators of group {self._group} have store {store} at {location}, {self._seen(claim)}"

    def _seen(self, claim: StoreClaim) -> str:
        return f"last seen {_moment(claim.at)} by an evaluator on {printable(claim.host, 100)}"


def _moment(at_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"at {at_ms} ms since the epoch"
