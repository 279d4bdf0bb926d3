"""A schema registry of a person's or a test's own: Apicurio Registry, which speaks Confluent's API."""

from tools.registry.server import RegistryDidNotStart, RegistryServer

__all__ = ["RegistryDidNotStart", "RegistryServer"]
