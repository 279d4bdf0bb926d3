"""Where handlers keep files: one small interface, found by a path or URL, whatever keeps them."""

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
