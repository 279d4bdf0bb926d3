"""The one layout of AFL text: same program, same comments, every time the same lines."""

from afl.formatting.text import FormatRefused, format_text

__all__ = ["FormatRefused", "format_text"]
