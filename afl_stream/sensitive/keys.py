"""The port for keys: a data key for each workflow, which can be dropped; and what goes wrong with keys."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from afl_stream.errors import SchemaUnavailable, StreamError


class KeyUnavailable(SchemaUnavailable):
    """The key of encrypted values cannot be used right now: wait for it, skip nothing and give nothing up.

    It waits as for a schema that cannot be looked up.
    """

    fact = "cannot be used"
    waits_for_people = True


class KeyFileRefused(StreamError):
    """A file of keys is not as it has to be: others may read it, or it holds no keys."""

    def __init__(self, path: object, found: str, remedy: str) -> None:
        super().__init__(f"{path}: {found}; {remedy}")
        self.path = str(path)


class KeysMissing(StreamError):
    """Encrypted values, or the wish for them, and no keys."""


class DataKey(NamedTuple):
    """The key of one workflow's values. `content` None: it was dropped, and what it encrypted is erased."""

    id: str
    content: bytes | None
    erased_at_ms: int = 0

    @property
    def is_erased(self) -> bool:
        return self.content is None


class KeyProvider(Protocol):
    """The port for keys.

    A scope is a workflow id. A provider may have one key for all scopes of a tenant; then dropping the key of one drops
    those of all. Threads share a provider.
    """

    def data_key(self, scope: str, *, create: bool = False) -> DataKey | None:
        """Return the key of a scope: the same one for every process, for good; None where there is none.

        With `create` it is made where there is none; a dropped one is never made again. Raises KeyUnavailable.
        """

    def drop(self, scope: str, at_ms: int) -> DataKey | None:
        """Drop the key of a scope, durably, also where it has none; return what there was. Raises KeyUnavailable."""

    def check(self) -> None:
        """Raise what keeps these keys from being used: KeyFileRefused, KeysMissing, KeyUnavailable."""
