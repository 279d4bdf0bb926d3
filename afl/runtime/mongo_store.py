"""The store in a MongoDB database: durable, shared by processes on many machines. pymongo stays in this adapter."""

from afl.stores.mongo.store import (
    DatabaseConfig,
    MongoStore,
)

__all__ = [
    "DatabaseConfig",
    "MongoStore",
]
