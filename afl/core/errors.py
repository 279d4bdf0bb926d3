"""The root of the errors that this distribution raises on purpose."""

from __future__ import annotations


class AFLError(Exception):
    """Base of every error that this package raises on purpose."""
