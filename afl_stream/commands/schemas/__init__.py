"""The commands about schemas: made from programs, registered, and compared with what is there."""
