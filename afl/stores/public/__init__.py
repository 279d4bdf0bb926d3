"""The users' face that all stores share: steps, events, tasks and locks as public objects."""
