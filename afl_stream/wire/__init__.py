"""Records on topics: what they hold, and their bytes."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "bounded_texts",
    "codec",
    "command_answers",
    "control_json",
    "dead_letters",
    "event_writers",
    "framing",
    "headers",
    "json_schema",
    "json_values",
    "messages",
    "milestone_kinds",
    "new_records",
    "pauses",
    "payload_schema",
    "run_milestones",
    "schedule_commands",
    "shapes",
    "topic_events",
)
