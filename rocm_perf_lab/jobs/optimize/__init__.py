"""`optimize`: rewrites of a described kernel or of an application."""
