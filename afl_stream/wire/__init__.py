"""Records on topics: what they hold, and their bytes."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "bounded_texts",
    "codec",
    "command_answers",
    "dead_letters",
    "headers",
    "messages",
    "run_milestones",
    "schedule_commands",
    "shapes",
)
