"""The syntax of AFL texts: comments, the tree builder, and help with mistakes."""
