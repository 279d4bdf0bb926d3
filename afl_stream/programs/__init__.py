"""Compiled programs on the definitions topic, and which one a name means now."""
