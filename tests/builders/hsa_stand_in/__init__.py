"""A stand-in HSA runtime whose dispatches run in the lab's emulator, and applications for it; see build.py and server.py."""
