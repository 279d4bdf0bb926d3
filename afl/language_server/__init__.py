"""A language server for AFL: the questions of an editor about a text that is being written.

Needs the extra `editors`; no other part of this package imports it.
"""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("server",)
