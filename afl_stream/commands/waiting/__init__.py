"""The commands about runs that wait: `why`, `pause` and `resume`."""

#: The modules that other packages import.
PUBLIC_MODULES = ("pauses_here", "why", "why_lines")
