"""Separate program that restricts itself and then executes a compiler of untrusted code.

`python -I -S sandbox_child.py REQUEST COMMAND...` with a JSON object: `limits` (names of the resource module -> value),
`readable` and `writable` (paths), `probe` (print the supported restrictions as JSON and exit), `without` (restrictions that are
not tried: `namespaces`, `proc`, `landlock`, `seccomp`). Uses the standard library only.

Limits always apply. Sockets and access to the memory of other processes are refused by seccomp(2). If the kernel permits user
namespaces, the command has no network interfaces and its own process ids with its own /proc. Landlock (Linux 5.13, see
landlock(7)) refuses access to other files; without an own /proc that includes /proc, so that command lines of other processes
stay hidden.
"""

import ctypes
import json
import os
import resource
import signal
import stat
import sys
from typing import NoReturn

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWIPC, _CLONE_NEWPID, _CLONE_NEWNS = (
    0x10000000,
    0x40000000,
    0x08000000,
    0x20000000,
    0x20000,
)
_NETWORK = _CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1
"""Results of a seccomp filter: execute the system call, or fail with EPERM."""
_REFUSED_CALLS = {
    "x86_64": (0xC000003E, (41, 53, 101, 248, 249, 250, 310, 311, 321, 425, 438)),
    "aarch64": (0xC00000B7, (198, 199, 117, 217, 218, 219, 270, 271, 280, 425, 438)),
}
"""Machine -> identifier and numbers of socket, socketpair, ptrace, add_key, request_key, keyctl, process_vm_readv,
process_vm_writev, bpf, io_uring_setup, pidfd_getfd."""
_X32_CALLS = 0x40000000
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


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filters", ctypes.POINTER(_Filter)))


def enter_namespaces() -> tuple[bool, bool]:
    """Enter namespaces without network interfaces, and with new process ids for child processes.

    Returns:
        Whether the network is removed, and whether child processes have their own process ids.
    """
    user, group = os.getuid(), os.getgid()
    numbered = bool(_libc.unshare(_NETWORK | _CLONE_NEWPID | _CLONE_NEWNS) == 0)
    if not numbered and _libc.unshare(_NETWORK) != 0:
        return False, False
    for name, content in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - Path would import more
                file.write(content)
        except OSError:
            continue  # the user has another number inside then, which restricts no more and no less
    return True, numbered


def mount_own_processes() -> bool:
    """Mount a /proc with the processes of this namespace only; return whether that worked."""
    _libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None)
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    return bool(_libc.mount(b"proc", b"/proc", b"proc", flags, None) == 0)


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def refuse_calls() -> bool:
    """Deny sockets, and access to the memory and keys of other processes; return whether that succeeded."""
    machine = os.uname().machine
    if machine not in _REFUSED_CALLS:
        return False
    identifier, numbers = _REFUSED_CALLS[machine]
    count = len(numbers)
    rows = [
        (_LOAD, 0, 0, 4),  # the machine
        (_EQUAL, 0, count + 2, identifier),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_AT_LEAST, count, 0, _X32_CALLS),
        *((_EQUAL, count - index - 1, 0, number) for index, number in enumerate(numbers[:-1])),
        (_EQUAL, 0, 1, numbers[-1]),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    filters = (_Filter * len(rows))(*(_Filter(*row) for row in rows))
    program = _Program(len(rows), ctypes.cast(filters, ctypes.POINTER(_Filter)))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def fork_inside() -> None:
    """Return in a child process of the new namespace; this process waits for it and ends as it ends.

    A first process of the namespace stands between them, because signals do not end the first one of a namespace by default.
    """
    reader, writer = os.pipe()
    first = os.fork()
    if first:
        os.close(writer)
        content = os.read(reader, 32)
        _, status = os.waitpid(first, 0)
        _end_as(int(content) if content else status)
    os.close(reader)
    end_with_parent()
    command = os.fork()
    if command == 0:
        os.close(writer)
        end_with_parent()
        return
    ended, status = os.wait()
    while ended != command:
        ended, status = os.wait()
    os.write(writer, str(status).encode())
    os._exit(0)


def _end_as(status: int) -> NoReturn:
    """End with the exit code or by the signal of a status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


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
    without = request.get("without", [])
    network, numbered = enter_namespaces() if "namespaces" not in without else (False, False)
    has_own = False
    if numbered:
        fork_inside()
        has_own = "proc" not in without and mount_own_processes()
    readable = [path for path in request["readable"] if has_own or path != "/proc"]
    files = "landlock" not in without and keep_files(readable, request["writable"])
    calls = "seccomp" not in without and refuse_calls()
    if request.get("probe"):
        print(json.dumps({"network": network or calls, "files": files, "processes": has_own or files}))
        return
    command = sys.argv[2:]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
