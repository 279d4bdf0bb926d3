"""The command `evaluator`, and the several processes that it may start."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ()
