"""An event facet that is served by a service in FastStream."""
