"""The tools, by subject: each module has those of one subject as `TOOLS`."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("compiling", "handlers", "letters", "looking", "runners", "running")
