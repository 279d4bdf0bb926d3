"""Text that people see: what is shown, what is masked, and how it is bounded."""
