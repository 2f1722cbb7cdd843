"""Profiling passes of a launch or an application, and the profile built from them."""
