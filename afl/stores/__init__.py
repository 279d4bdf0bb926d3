"""The stores: in memory, in SQLite and in MongoDB, with the same anatomy in each."""
