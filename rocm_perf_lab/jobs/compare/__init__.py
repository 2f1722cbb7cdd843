"""`compare`: differences between two profiles."""
