"""New projects: the command `init`, and the templates that it copies."""
