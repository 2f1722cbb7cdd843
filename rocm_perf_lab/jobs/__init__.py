"""One package per command; jobs combine the packages below them."""
