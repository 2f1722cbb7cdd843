"""Names in a run's folder, beside those of the documents."""

ROCPD_FOLDER = ".rocpd_profile"
"""The databases of the passes, each pass in a folder of its own."""
ATT_FOLDER = "att"
"""The decoded thread trace."""
TIMELINE = "timeline.perfetto-trace"
"""Opens in ui.perfetto.dev."""
