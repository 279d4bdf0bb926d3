"""Groups of the embedded broker: the assignment of partitions, and the steps by which a partition changes hands."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from afl_stream.transport import Assignor, CommittedOffset, TopicPartition, TransportError


class AssignorMismatch(TransportError):
    """A member uses another assignor than its group."""

    def __init__(self, group: str, found: Assignor, right: Assignor) -> None:
        super().__init__(f"group {group} assigns by {right}; a member that assigns by {found} cannot join")
        self.group, self.found, self.right = group, found, right


@dataclass(slots=True, eq=False)
class Member:
    """One consumer in one group: its subscription, its assignment (`target`) and what it holds now (`held`)."""

    client_id: str
    sequence: int
    topics: frozenset[str]
    pattern: re.Pattern[str] | None
    wake: Callable[[], None]
    target: set[TopicPartition] = field(default_factory=set)
    held: set[TopicPartition] = field(default_factory=set)
    #: The group's epoch that an eager member has given everything up for.
    revoked_epoch: int = 0
    fenced: bool = False

    def wants(self, topic: str) -> bool:
        return topic in self.topics or (self.pattern is not None and self.pattern.match(topic) is not None)

    @property
    def order(self) -> tuple[str, int]:
        return self.client_id, self.sequence


def assign_range(members: Sequence[Member], topics: Mapping[str, int]) -> dict[int, set[TopicPartition]]:
    """Assign consecutive partitions to members in order, topic by topic; keyed by the members' sequence."""
    given: dict[int, set[TopicPartition]] = {member.sequence: set() for member in members}
    for topic, partitions in sorted(topics.items()):
        takers = [member for member in members if member.wants(topic)]
        if not takers:
            continue
        share, extra = divmod(partitions, len(takers))
        first = 0
        for place, member in enumerate(takers):
            count = share + (1 if place < extra else 0)
            given[member.sequence].update(TopicPartition(topic, p) for p in range(first, first + count))
            first += count
    return given


def assign_sticky(members: Sequence[Member], topics: Mapping[str, int]) -> dict[int, set[TopicPartition]]:
    """Assign so that members keep what they have and few partitions move.

    Loads differ by at most one where subscriptions allow that.
    """
    wanting = {topic: [member for member in members if member.wants(topic)] for topic in topics}
    given: dict[int, set[TopicPartition]] = {}
    taken: set[TopicPartition] = set()
    for member in members:
        kept = {
            p
            for p in member.target
            if p not in taken and p.partition < topics.get(p.topic, 0) and member.wants(p.topic)
        }
        given[member.sequence] = kept
        taken |= kept
    for topic, partitions in sorted(topics.items()):
        if not wanting[topic]:
            continue
        for number in range(partitions):
            partition = TopicPartition(topic, number)
            if partition not in taken:
                least = min(wanting[topic], key=lambda member: len(given[member.sequence]))
                given[least.sequence].add(partition)
    while _move_one(members, given):
        pass
    return given


def _move_one(members: Sequence[Member], given: dict[int, set[TopicPartition]]) -> bool:
    """Move one partition from a fuller member to one that has at least two less; return whether one was moved."""
    by_load = sorted(members, key=lambda member: len(given[member.sequence]))
    for fullest in reversed(by_load):
        for least in by_load:
            if len(given[fullest.sequence]) - len(given[least.sequence]) < 2:
                break
            movable = [p for p in given[fullest.sequence] if least.wants(p.topic)]
            if movable:
                moved = max(movable)
                given[fullest.sequence].remove(moved)
                given[least.sequence].add(moved)
                return True
    return False


class Group:
    """One consumer group. Not safe for threads: the broker's lock is held around each call.

    A partition changes hands in this order:
      1. `rebalance` decides which member gets it,
      2. its holder finds it in `to_revoke`, runs its callback, and gives it up with `release`,
      3. its next holder takes it with `grant`, and runs its callback.
    A holder that dies before 2 keeps it until it is expired; one that dies after 3 likewise.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self._members: list[Member] = []
        self._owners: dict[TopicPartition, Member] = {}
        self._assignor = Assignor.COOPERATIVE_STICKY
        self._epoch = 0

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(self._members)

    def check_assignor(self, assignor: Assignor) -> None:
        """Raise AssignorMismatch when present members use another assignor."""
        if self._members and assignor is not self._assignor:
            raise AssignorMismatch(self.name, assignor, self._assignor)

    def join(self, member: Member, assignor: Assignor) -> None:
        """Add a member; a `rebalance` must follow. Raises AssignorMismatch."""
        self.check_assignor(assignor)
        self._assignor = assignor
        self._members.append(member)
        self._members.sort(key=lambda known: known.order)

    def leave(self, member: Member) -> None:
        """Remove a member, and free what it holds; a `rebalance` must follow."""
        if member in self._members:
            self._members.remove(member)
        for partition in list(member.held):
            self._owners.pop(partition, None)
        member.held.clear()
        member.target.clear()

    def rebalance(self, topics: Mapping[str, int], moves: Mapping[TopicPartition, Member] | None = None) -> None:
        """Compute a new assignment of `topics` (partitions by name); `moves` overrule the assignor."""
        self._epoch += 1
        assign = assign_range if self._assignor is Assignor.RANGE else assign_sticky
        given = assign(self._members, topics)
        for partition, chosen in (moves or {}).items():
            for member in self._members:
                given[member.sequence].discard(partition)
            given[chosen.sequence].add(partition)
        for member in self._members:
            member.target = given[member.sequence]
            member.wake()

    def owns(self, member: Member, partition: TopicPartition) -> bool:
        return self._owners.get(partition) is member

    def to_revoke(self, member: Member) -> list[TopicPartition]:
        """Return what this member must give up before the group continues: all of it when assignment is eager."""
        if self._assignor is Assignor.RANGE:
            if member.held and member.revoked_epoch != self._epoch:
                return sorted(member.held)
            member.revoked_epoch = self._epoch
            return []
        return sorted(member.held - member.target)

    def release(self, member: Member, partitions: Sequence[TopicPartition]) -> None:
        """Let others take these partitions: the member's callback has run."""
        for partition in partitions:
            if self.owns(member, partition):
                del self._owners[partition]
            member.held.discard(partition)
        for other in self._members:
            other.wake()

    def grant(self, member: Member) -> list[TopicPartition]:
        """Assign what is due to this member and free: all at once when eager, else as it becomes free."""
        due = sorted(member.target - member.held)
        free = [partition for partition in due if partition not in self._owners]
        if self._assignor is Assignor.RANGE and len(free) < len(due):
            return []
        for partition in free:
            self._owners[partition] = member
        member.held.update(free)
        return free

    def forget_topic(self, topic: str) -> None:
        """Drop a deleted topic and the group's positions in it."""
        for partition in [p for p in self.committed if p.topic == topic]:
            del self.committed[partition]
