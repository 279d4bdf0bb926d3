"""Records on topics: what they hold, and their bytes."""
