"""`profile`: a described kernel or an application."""
