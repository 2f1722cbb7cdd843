"""`metrics`: counter metrics by architecture."""
