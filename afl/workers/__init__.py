"""Workers on a store's tasks: pollers, the registry runner and the runner service."""
