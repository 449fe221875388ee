"""Blindness that the system enforces: a predictor's process can read its declared inputs, its code, and nothing else.

On Linux this is Landlock (kernel 5.13 and later; https://docs.kernel.org/userspace-api/landlock.html), which binds the
whole process, compiled libraries included, and can't be taken back. Everywhere a Python audit hook does the same for
files opened from Python. Both stand on top of the shadow directory in which the rule runs.
"""

import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from halfulp.registration.freeze import PROJECT

#: What a process needs in order to run at all. None of it holds results.
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys", "/dev", "/opt")
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system call numbers, the same on every architecture
_PATH_BENEATH = 1
# Rights of the first version of the interface: execute, write, read, list, remove and make.
_ALL = (1 << 13) - 1
_READ = 0b1101  # execute, read a file, list a folder
_FILE = 0b0111  # the rights that make sense on a file
_NO_NEW_PRIVILEGES = 38


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def run_isolated(work: Callable[[], None], readable: list[Path], writable: list[Path]) -> None:
    """Do some work in a child process that can read and write no more than it is given.

    Args:
        work: what to do; it leaves its results in files.
        readable: files that it may read.
        writable: folders in which it may make files.

    Raises:
        RuntimeError: the work failed; the child's traceback went to standard error.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            print(f"isolated by {isolate(readable, writable)}", flush=True)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        raise RuntimeError("the isolated work failed; its traceback stands above")


def isolate(readable: list[Path], writable: list[Path]) -> str:
    """Confine this process for the rest of its life; return what enforces it.

    Args:
        readable: files that may be read.
        writable: folders in which files may be made; nothing in them may be read unless it is among ``readable``.
    """
    roots = [Path(p).resolve() for p in {*SYSTEM, sys.prefix, sys.base_prefix} if Path(p).exists()]
    roots.append(PROJECT / "src")
    files, folders = [path.resolve() for path in readable], [path.resolve() for path in writable]
    confined = _landlock(roots, files, folders)
    sys.addaudithook(_hook(roots, files, folders))
    return "landlock and audit hook" if confined else "audit hook"


def _hook(roots: list[Path], files: list[Path], folders: list[Path]) -> Any:
    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = Path(os.fsdecode(arguments[0])).resolve()
        writing = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_CREAT)
        allowed = path in files or any(path.is_relative_to(root) for root in roots)
        if not allowed and not (writing and any(path.is_relative_to(folder) for folder in folders)):
            raise PermissionError(f"{path}: not among this rule's declared inputs")

    return refuse


def _landlock(roots: list[Path], files: list[Path], folders: list[Path]) -> bool:
    """Confine by Landlock; return whether the kernel took it."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    attribute = ctypes.c_uint64(_ALL)
    ruleset = libc.syscall(_CREATE, ctypes.byref(attribute), ctypes.sizeof(attribute), 0)
    if ruleset < 0:
        return False
    rules = [(root, _READ) for root in roots] + [(file, _READ & _FILE) for file in files]
    rules += [(Path("/dev"), _READ | _FILE)] + [(folder, _ALL & ~_READ) for folder in folders]
    for path, rights in rules:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = _Beneath(rights if path.is_dir() else rights & _FILE, folder)
        failed = libc.syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(folder)
        if failed:
            return False
    confined = libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0 and libc.syscall(_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return confined
