"""`autotune`: search of a configuration space, also as a Hydra sweep."""
