"""A workflow in memory: its steps, what runs next, and what a commit writes of it."""
