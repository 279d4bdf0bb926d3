"""A language server for AFL: the questions of an editor about a text that is being written.

Needs the extra `editors`; no other part of this package imports it.
"""
