"""Source-to-source transforms, one class per module."""
