"""`emulate`: one kernel of a code object on the emulator."""
