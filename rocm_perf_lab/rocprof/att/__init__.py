"""Decoded thread traces of rocprofv3."""
