"""The commands of `pubsub`: event-driven workflows."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("stores", "subscribing", "workflows")
