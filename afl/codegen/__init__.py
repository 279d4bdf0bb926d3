"""Code in other languages, made of a program: types of payloads and results, and handlers to begin with."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("writing",)
