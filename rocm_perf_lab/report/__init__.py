"""HTML reports, roofline plots and Perfetto traces."""
