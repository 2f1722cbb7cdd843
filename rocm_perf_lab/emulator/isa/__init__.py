"""Instructions: decoding, classes, and properties that the decoder tables lack."""
