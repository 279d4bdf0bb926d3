"""Python scripts of AFL programs: the Python that they may use, and the isolated processes that run them.

The kernel enforces the isolation: a script runs in a process of its own without files, network, other processes,
privileges or environment. The check of its text and the short list of names come earlier, and are not part of the
isolation.
"""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "check",
    "errors",
    "executor",
    "isolation",
    "limits",
    "pool",
)
