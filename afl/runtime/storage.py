"""Storage for the files of handlers: one small interface to each kind, found by a path or URL."""

from afl.workers.storage import (
    LocalStorage,
    StorageBackend,
    StorageRefused,
    UnknownStorage,
    get_storage_backend,
    local_path,
    register_storage,
    storage_schemes,
)

__all__ = [
    "LocalStorage",
    "StorageBackend",
    "StorageRefused",
    "UnknownStorage",
    "get_storage_backend",
    "local_path",
    "register_storage",
    "storage_schemes",
]
