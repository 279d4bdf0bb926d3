"""A SQLite store in several files, one for each evaluator process: who has which, and how all of them are read.

Modules: `own_part` (the part of one evaluator), `parted_store` (all parts as one store, for reading), `part_locks` (one
process has a part), `dividing` (another number of files).
"""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("dividing", "own_part", "part_locks", "parted_store")
