"""Compiled programs into plans: names resolved, expressions compiled, defaults worked out."""
