"""Expressions, compiled once into closures."""
