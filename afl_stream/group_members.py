"""Groups of consumers as a broker describes them: who is a member, and which partitions each member has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member of a group; `partitions` are pairs of a topic and a number. `host` is "" where it is not told."""

    client_id: str
    host: str = ""
    partitions: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group and its members now; a group that does not exist has none."""

    name: str
    members: tuple[GroupMember, ...] = ()

    def readers_of(self, topic: str) -> tuple[GroupMember, ...]:
        """Return the members that have partitions of a topic."""
        return tuple(member for member in self.members if any(name == topic for name, _ in member.partitions))


@runtime_checkable
class DescribesGroups(Protocol):
    """The part of an admin that describes groups."""

    def groups(self, names: Iterable[str] | None = None) -> dict[str, GroupView]:
        """Return these groups, or all that there are.

        A group that may not be described is left out. Raises BrokerUnavailable.
        """
