"""What operators do: each action with its fields and words, and what carries it out; the log says who did it."""

#: The modules that other packages import.
PUBLIC_MODULES = ("operator", "performing", "start_forms", "table")
