"""Pure functions from a profile to conclusions, and the documents that state them."""
