"""What people and tests run beside the packages; nothing of it is installed with them."""
