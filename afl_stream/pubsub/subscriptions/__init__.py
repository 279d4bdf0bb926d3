"""Publishing to topics and subscribing to them: by name or pattern, filtered and mapped, with back-pressure."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("message", "publisher", "republishing", "settings", "subscription")
