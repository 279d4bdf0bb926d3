"""The commands that look back at runs: lists, one run in detail, its records, and the programs."""

#: The modules that other packages import.
PUBLIC_MODULES = ("choosing", "programs", "short_ids", "topics_beside", "unknown_ids", "words")
