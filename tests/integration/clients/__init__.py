"""Clients of other languages in one group with an agent in Python, on a real broker."""
