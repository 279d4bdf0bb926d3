"""Pictures of event-driven workflows: SVG and Mermaid."""

#: Modules that other packages import; the others are private to this one.
PUBLIC_MODULES = (
    "mermaid",
    "svg",
)
