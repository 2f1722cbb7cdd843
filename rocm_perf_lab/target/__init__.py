"""GPU products as data, occupancy and peaks."""
