"""Pauses in the loop: workflows that are left as they are, and events that are held back in the outbox."""

#: The modules that other packages import.
PUBLIC_MODULES = ("held_events", "pause_watch")
