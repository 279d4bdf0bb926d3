"""Answers that come before their step has asked: kept, judged again, and given up when they expire."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "parked_answers",
    "parking_limits",
)
