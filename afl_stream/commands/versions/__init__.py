"""Versions of programs: what differs between a program and what is deployed, and runs that move to another version."""

#: The modules that other packages import.
PUBLIC_MODULES = ("comparing", "judging")
