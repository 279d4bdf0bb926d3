"""Keys in a folder: the master keys in a file or in a setting, and beside them a file for each workflow's data key.

    keys/master.keys        ID=BASE64, a line each; the current one first
    keys/data/3f/3f9c...    one workflow's data key, encrypted with a master key: JSON; or when it was dropped

Only the owner may read the folder. Every process of the deployment has the same folder: on several machines it is a
shared file system. A data key is made once: the file appears whole, under its name, and the first one wins.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import stat
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from afl.core.probes import Probe, no_probe
from afl.core.process.private_files import PRIVATE_FILE, PRIVATE_FOLDER
from afl_stream.sensitive.ciphers import KEY_BYTES, NotAuthentic, decrypt, encrypt, new_key, require_cipher
from afl_stream.sensitive.envelope import NONCE_BYTES
from afl_stream.sensitive.keys import DataKey, KeyFileRefused, KeysMissing, KeyUnavailable

MASTER_FILE: Final = "master.keys"
_DATA: Final = "data"
#: Data keys that a process remembers. Each use looks whether its file is still the same.
_REMEMBERED: Final = 10_000
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

#: What tells one state of a file from another.
_Stamp = tuple[int, int, int]


def read_master_keys(listed: str) -> dict[str, bytes]:
    """Read `ID=BASE64, ID=BASE64`. Raises ValueError, which says what is wrong and quotes nothing of a key."""
    keys: dict[str, bytes] = {}
    for number, entry in enumerate(filter(None, map(str.strip, listed.replace("\n", ",").split(","))), 1):
        key_id, _, coded = entry.partition("=")
        try:
            key = base64.b64decode(coded.strip(), validate=True)
        except binascii.Error:
            key = b""
        if not key_id or len(key) != KEY_BYTES:
            raise ValueError(f"master key {number} is not ID=BASE64 of {KEY_BYTES} bytes")
        if key_id in keys:
            raise ValueError(f"the id of master key {number} is also that of an earlier one")
        keys[key_id] = key
    return keys


class KeyCounts(NamedTuple):
    """The number of data keys by the master key that encrypts them, the current one first, and of dropped ones."""

    by_master: dict[str, int]
    erased: int


class KeyFolder:
    """The keys of a folder. Threads and processes may share it."""

    def __init__(self, path: Path, master: Mapping[str, bytes] | None = None, *, probe: Probe = no_probe) -> None:
        """Take the folder, and the master keys, current one first; None: they are in the folder's file."""
        self.path = path
        self._probe = probe
        self._given = dict(master) if master is not None else None
        self._known: OrderedDict[str, tuple[_Stamp, DataKey]] = OrderedDict()
        self._lock = threading.Lock()

    # --- master keys --------------------------------------------------------------------------------------------

    def master_keys(self) -> dict[str, bytes]:
        """Return the master keys by id, the current one first. Raises KeyFileRefused and KeysMissing."""
        if self._given is not None:
            return self._given
        path = self.path / MASTER_FILE
        try:
            _refuse_readers(path)
            listed = path.read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            raise KeysMissing(
                f"there is no master key: {path} does not exist; make it with: afl-stream keys create"
            ) from None
        except OSError as error:
            raise KeyFileRefused(
                path, f"cannot be read ({error.strerror})", "let its owner run this process"
            ) from error
        try:
            keys = read_master_keys(listed)
        except ValueError as error:
            raise KeyFileRefused(path, str(error), "restore the file from its backup") from None
        if not keys:
            raise KeyFileRefused(path, "holds no key", "restore the file from its backup")
        return keys

    def add_master(self, key_id: str | None = None) -> str:
        """Draw a new master key, which is the current one from now on, and return its id.

        Values that are encrypted stay readable: the earlier keys stay in the file. Raises KeyFileRefused.
        """
        require_cipher()
        path = self.path / MASTER_FILE
        if self._given is not None:
            raise KeyFileRefused(path, "the master keys are in the setting keys.master", "change them there")
        _make_folder(self.path)
        earlier = self.master_keys() if path.exists() else {}
        key_id = key_id or uuid.uuid4().hex[:8]
        if key_id in earlier or not key_id.isalnum():
            raise KeyFileRefused(
                path, f"{key_id!r:.80} cannot be the id of a new key", "choose letters and digits that no other key has"
            )
        lines = [f"{name}={base64.b64encode(key).decode()}\n" for name, key in {key_id: new_key(), **earlier}.items()]
        _write_whole(path, "".join(lines).encode())
        return key_id

    def check(self) -> None:
        """Raise what keeps these keys from being used."""
        require_cipher()
        self.master_keys()

    @property
    def has_master(self) -> bool:
        """Whether there is a master key."""
        return self._given is not None or (self.path / MASTER_FILE).exists()

    def counted(self) -> KeyCounts:
        """Return how many data keys each master key encrypts. Raises KeyFileRefused and KeysMissing."""
        by_master, erased = dict.fromkeys(self.master_keys(), 0), 0
        for path in self._files():
            master = json.loads(path.read_bytes()).get("master")
            if master is None:
                erased += 1
            else:
                by_master[master] = by_master.get(master, 0) + 1
        return KeyCounts(by_master, erased)

    # --- data keys ----------------------------------------------------------------------------------------------

    def data_key(self, scope: str, *, create: bool = False) -> DataKey | None:
        """Return the key of a workflow; see KeyProvider."""
        path = self._file_of(scope)
        try:
            stamp = _stamp_of(path)
            known = self._known.get(scope)
            if known is not None and known[0] == stamp:
                return known[1]
            found = self._read(scope, path)
        except FileNotFoundError:
            if not create:
                self._forget(scope)
                return None
            self._make(scope, path)
            return self.data_key(scope)
        except OSError as error:
            raise KeyUnavailable(f"the key of workflow {scope}", f"{path}: {error.strerror}") from error
        with self._lock:
            self._known[scope] = (stamp, found)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found

    def drop(self, scope: str, at_ms: int) -> DataKey | None:
        """Drop the key of a workflow; see KeyProvider.

        1. the file's content is overwritten where it stands (`keys.overwritten`), 2. a file that says so is written
        beside it (`keys.written`), 3. it takes its name. A crash between 1 and 3 leaves bytes that are no key: the
        workflow's values are lost already, and the command is repeated. What 2 has written beside is no one's key.
        """
        path = self._file_of(scope)
        try:
            _make_folder(path.parent)
            try:
                earlier = self._read(scope, path)
            except (FileNotFoundError, KeyUnavailable):
                earlier = None
            if earlier is not None and earlier.is_erased:
                return earlier
            with contextlib.suppress(FileNotFoundError):
                _overwrite(path)
            self._probe("keys.overwritten")
            written = _write_beside(path, json.dumps({"scope": scope, "erased_at_ms": at_ms}).encode())
            self._probe("keys.written")
            _take_name(written, path)
        except OSError as error:
            raise KeyUnavailable(f"the key of workflow {scope}", f"{path}: {error.strerror}") from error
        self._forget(scope)
        return earlier

    def rewrap(self) -> int:
        """Encrypt all data keys with the current master key, so that earlier ones may go; return how many changed."""
        masters, changed = self.master_keys(), 0
        current = next(iter(masters))
        for path in self._files():
            document = json.loads(path.read_bytes())
            if document.get("master") in (None, current):
                continue
            scope = str(document["scope"])
            found = self._read(scope, path)
            assert found.content is not None
            _write_whole(path, self._wrapped(scope, found.id, found.content))
            changed += 1
        return changed

    def _files(self) -> Iterator[Path]:
        return (path for path in sorted((self.path / _DATA).glob("??/*")) if not path.name.startswith("."))

    def _file_of(self, scope: str) -> Path:
        name = sha256(scope.encode("utf-8", "surrogatepass")).hexdigest()
        return self.path / _DATA / name[:2] / name

    def _forget(self, scope: str) -> None:
        with self._lock:
            self._known.pop(scope, None)

    def _make(self, scope: str, path: Path) -> None:
        """Make the key of a workflow, unless another process has been faster."""
        _make_folder(path.parent)
        content = self._wrapped(scope, uuid.uuid4().hex[:12], new_key())
        written = _write_beside(path, content)
        try:
            # Fails where the name exists: whoever was first has made the key.
            with contextlib.suppress(FileExistsError):
                os.link(written, path)
            _sync_folder(path.parent)
        finally:
            written.unlink(missing_ok=True)

    def _wrapped(self, scope: str, key_id: str, key: bytes) -> bytes:
        masters = self.master_keys()
        master = next(iter(masters))
        nonce, content = encrypt(masters[master], key, _bound(scope, key_id))
        wrapped = base64.b64encode(nonce + content).decode()
        return json.dumps({"scope": scope, "key": key_id, "master": master, "wrapped": wrapped}).encode()

    def _read(self, scope: str, path: Path) -> DataKey:
        wanted = f"the key of workflow {scope}"
        try:
            document = json.loads(path.read_bytes())
            if "erased_at_ms" in document:
                return DataKey("", None, int(document["erased_at_ms"]))
            key_id, master = str(document["key"]), str(document["master"])
            wrapped = base64.b64decode(document["wrapped"], validate=True)
        except (ValueError, LookupError, TypeError) as error:
            raise KeyUnavailable(wanted, f"{path} is damaged; restore it from its backup") from error
        masters = self.master_keys()
        if master not in masters:
            known = ", ".join(masters)
            raise KeyUnavailable(wanted, f"it is encrypted with master key {master}, and there is only {known}")
        try:
            key = decrypt(masters[master], wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], _bound(scope, key_id))
        except NotAuthentic:
            raise KeyUnavailable(wanted, f"master key {master} is not the one that it was encrypted with") from None
        return DataKey(key_id, key)


def _bound(scope: str, key_id: str) -> bytes:
    return json.dumps(["afl-data-key", 1, scope, key_id]).encode()


def _stamp_of(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _refuse_readers(path: Path) -> None:
    mode = path.stat().st_mode
    if os.name == "posix" and mode & _OTHERS:
        found = f"other users may read or write it (mode {stat.S_IMODE(mode):04o})"
        raise KeyFileRefused(path, found, f"run: chmod 600 {path}")


def _make_folder(path: Path) -> None:
    """Make a folder that only its owner may enter, and those above it."""
    if not path.is_dir():
        if not path.parent.is_dir():
            _make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(PRIVATE_FOLDER)


def _write_beside(path: Path, content: bytes) -> Path:
    """Write content to a new file beside another one, durably, and return it."""
    written = path.with_name(f".{path.name[:16]}.{uuid.uuid4().hex}")
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return written


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole: readers see the earlier content or this one."""
    _take_name(_write_beside(path, content), path)


def _take_name(written: Path, path: Path) -> None:
    os.replace(written, path)
    _sync_folder(path.parent)


def _overwrite(path: Path) -> None:
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    number = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(number)
    finally:
        os.close(number)
