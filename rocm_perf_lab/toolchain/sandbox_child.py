"""Separate program that restricts itself and then executes a compiler of untrusted code.

`python -I -S sandbox_child.py REQUEST COMMAND...` with a JSON object: `limits` (names of the resource module -> value),
`readable` and `writable` (paths), `probe` (print the supported restrictions as JSON and exit). Uses the standard library only.

Limits always apply. Network access is removed if the kernel permits user namespaces; access to other files is removed if it
has Landlock (Linux 5.13, see landlock(7)).
"""

import ctypes
import json
import os
import resource
import stat
import sys

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x08000000
_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""System calls of Landlock: the same numbers on every architecture."""
_EXECUTE, _WRITE, _READ, _READ_DIR = 1, 2, 4, 8
_ALL_OF_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
"""Access rights by version of Landlock; version 5 adds ioctl on devices."""
_IOCTL_VERSION, _IOCTL_ALL = 5, (1 << 16) - 1
_FOR_FILES = _EXECUTE | _WRITE | _READ | (1 << 14) | (1 << 15)

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("access", ctypes.c_uint64),)


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("directory", ctypes.c_int32))


def leave_the_network() -> bool:
    """Enter a namespace without network interfaces; return whether that worked."""
    return bool(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC) == 0)


def keep_files(readable: list[str], writable: list[str]) -> bool:
    """Allow access only to these paths and the files below them; return whether that worked."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    everything = _IOCTL_ALL if version >= _IOCTL_VERSION else _ALL_OF_VERSION[version]
    request = _Ruleset(everything)
    ruleset = _libc.syscall(_CREATE_RULESET, ctypes.byref(request), ctypes.c_size_t(ctypes.sizeof(request)), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    for path in readable:
        _allow(ruleset, path, _EXECUTE | _READ | _READ_DIR)
    for path in writable:
        _allow(ruleset, path, everything)
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(_libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing file needs no rule
    if not stat.S_ISDIR(os.fstat(handle).st_mode):
        access &= _FOR_FILES
    rule = _PathRule(access, handle)
    _libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.byref(rule), ctypes.c_uint32(0))
    os.close(handle)


def main() -> None:
    """Apply the restrictions, then execute the command."""
    request = json.loads(sys.argv[1])
    for name, value in request["limits"].items():
        number = getattr(resource, name)
        _, most = resource.getrlimit(number)
        allowed = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(number, (allowed, allowed))
    gone = {"network": leave_the_network(), "files": keep_files(request["readable"], request["writable"])}
    if request.get("probe"):
        print(json.dumps(gone))
        return
    command = sys.argv[2:]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
