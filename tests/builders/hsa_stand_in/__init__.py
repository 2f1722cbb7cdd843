"""A stand-in HSA runtime whose dispatches run on the emulator, and applications for it; see build.py and server.py."""
