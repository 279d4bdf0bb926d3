"""Encryption of values one by one, each bound to its place, with the data key of its workflow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from afl_stream.errors import StreamError
from afl_stream.sensitive.ciphers import NotAuthentic, decrypt, encrypt
from afl_stream.sensitive.envelope import (
    ERASED,
    Place,
    is_sealed,
    read_envelope,
    sealed_text,
    value_bytes,
    value_of,
)
from afl_stream.sensitive.keys import DataKey, KeyProvider, KeyUnavailable


class SealBroken(StreamError):
    """An encrypted value that was changed, or that was encrypted for another place."""

    def __init__(self, place: Place, why: str) -> None:
        self.place = place
        where = f"step {place.step_id}" if place.step_id else f"workflow {place.workflow_id}"
        super().__init__(f"{place.kind} {place.name} of {where} cannot be decrypted: {why}")


class Sealer:
    """Encrypts and decrypts values. Threads may share it."""

    def __init__(self, keys: KeyProvider, *, seals: bool = True) -> None:
        """Without `seals` it only decrypts: encryption was turned off, and what was encrypted is still read."""
        self.keys = keys
        self.seals = seals
        #: What kept an event from being encrypted: its commit must not be made, because the engine took it for a
        #: failure of the step.
        self.failure: KeyUnavailable | None = None

    def seal(self, value: object, place: Place) -> str:
        """Return the text of an encrypted value; that of an erased one for a workflow whose key was dropped.

        Raises KeyUnavailable.
        """
        key = self.keys.data_key(place.workflow_id, create=True)
        if key is None or key.content is None or value == ERASED:
            return ERASED
        nonce, content = encrypt(key.content, value_bytes(value), place.associated_data())
        return sealed_text(key.id, nonce, content)

    def open(self, text: str, place: Place) -> Any:
        """Return the value that was encrypted for this place; ERASED for one whose key was dropped.

        Raises KeyUnavailable, SealBroken.
        """
        if text == ERASED:
            return ERASED
        try:
            envelope = read_envelope(text)
        except ValueError as error:
            raise SealBroken(place, str(error)) from None
        key = self._key(place)
        if key.content is None:
            return ERASED
        if key.id != envelope.key_id:
            raise SealBroken(place, "it was encrypted with another key than this workflow's")
        try:
            return value_of(decrypt(key.content, envelope.nonce, envelope.content, place.associated_data()))
        except NotAuthentic:
            raise SealBroken(place, "it was changed, or was encrypted for another place") from None

    def _key(self, place: Place) -> DataKey:
        key = self.keys.data_key(place.workflow_id)
        if key is None:
            where = "none is there; are these the keys of the deployment that has encrypted its values?"
            raise KeyUnavailable(f"the key of workflow {place.workflow_id}", where)
        return key

    def seal_values(
        self, values: Mapping[str, Any], names: Collection[str], workflow_id: str, step_id: str, kind: str
    ) -> Mapping[str, Any]:
        """Return values of which those of `names` are encrypted.

        A text that looks like an encrypted value is encrypted, too: what looks like one there is one of ours.
        """
        sealed = {
            name: self.seal(value, Place(workflow_id, step_id, kind, name))
            for name, value in values.items()
            if name in names or is_sealed(value)
        }
        return {**values, **sealed} if sealed else values

    def open_values(self, values: Mapping[str, Any], workflow_id: str, step_id: str, kind: str) -> Mapping[str, Any]:
        """Return values of which none is encrypted. Raises KeyUnavailable, SealBroken."""
        opened = {
            name: self.open(value, Place(workflow_id, step_id, kind, name))
            for name, value in values.items()
            if is_sealed(value)
        }
        return {**values, **opened} if opened else values
