"""Rewrites: transforms, proposers, guards, search and acceptance."""
