"""Time in the control loop: timers that are due, further attempts, and events that are published again."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "republishing",
    "retry_milestones",
    "timer_turns",
)
