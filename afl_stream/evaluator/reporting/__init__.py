"""What an evaluator writes to its log about records: lines about events, and warnings about dead letters."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = ("event_lines", "letter_warnings")
