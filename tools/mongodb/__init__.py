"""A MongoDB server on this machine, for tests and trials: SecantusDB, from PyPI, as a process of its own."""

from tools.mongodb.server import NotInstalled, Server, ServerDidNotStart

__all__ = ["NotInstalled", "Server", "ServerDidNotStart"]
