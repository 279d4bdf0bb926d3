"""Presence: what evaluators, agents and others announce of themselves, and who is there."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "announcing",
    "listing",
    "records",
)
