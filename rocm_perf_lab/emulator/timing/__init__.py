"""Timing model: issue, caches, memory, and emulated counters and thread traces."""
