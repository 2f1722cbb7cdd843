"""`disassemble`: instructions of a code object."""
