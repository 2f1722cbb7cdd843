"""`analyze`: profile documents from recorded output of a profiler."""
