"""The pages for people: rendered here, complete without JavaScript."""

#: The modules that other packages import.
PUBLIC_MODULES = ("rendering", "routes")
