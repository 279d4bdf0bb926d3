"""A language server for AFL: what editors ask of a text while it is written.

Needs the extra `editors`; nothing else of this package imports it.
"""
