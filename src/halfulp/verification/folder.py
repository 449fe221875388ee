"""A run's folder as evidence: its files by name and digest. No link is followed and nothing outside is read."""

import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halfulp.registration.digests import sha256_file

#: Top-level names that a live run has beside its evidence; they are neither read nor published.
BYPRODUCTS = ("logs", "benchmarks", "progress", "checkpoints", ".vault", ".run-key.pem")
#: Files that may be added to a run afterwards: a timestamp, and descriptions for other tools.
ADDED = ("frozen.tsr", "ro-crate-metadata.json", "prml")
#: No file of a run comes near this size, in bytes.
LARGEST = 1 << 30


@dataclass
class Folder:
    """The regular files under a folder, and what else lies there."""

    root: Path
    #: Name relative to the folder → path, of every regular file that is evidence.
    files: dict[str, Path] = field(default_factory=dict)
    #: What should not be there: name → what it is.
    strange: dict[str, str] = field(default_factory=dict)
    #: Top-level names that are there and are no evidence.
    beside: set[str] = field(default_factory=set)
    _digests: dict[str, str] = field(default_factory=dict)

    def scan(self) -> "Folder":
        """List the folder, without following links; return it."""
        waiting = [self.root]
        while waiting:
            for entry in sorted(os.scandir(waiting.pop()), key=lambda e: e.name):
                self._add(entry, waiting)
        return self

    def _add(self, entry: "os.DirEntry[str]", waiting: list[Path]) -> None:
        path = Path(entry.path)
        name = path.relative_to(self.root).as_posix()
        if name in (*BYPRODUCTS, *ADDED):
            self.beside.add(name)
            return
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            waiting.append(path)
        elif stat.S_ISREG(mode) and entry.stat(follow_symlinks=False).st_size > LARGEST:
            self.strange[name] = f"larger than {LARGEST} bytes, as no file of a run is"
        elif stat.S_ISREG(mode):
            self.files[name] = path
        else:
            self.strange[name] = "a symbolic link" if stat.S_ISLNK(mode) else "neither a file nor a folder"

    def copy_to(self, target: Path) -> None:
        """Copy the evidence to another folder."""
        for name, path in self.files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name, follow_symlinks=False)

    def digest(self, name: str) -> str | None:
        """Return a file's SHA-256; None if it is not there."""
        if name not in self.files:
            return None
        if name not in self._digests:
            self._digests[name] = sha256_file(self.files[name])
        return self._digests[name]


def leaves(name: Any) -> bool:
    """Say whether a path that a record names would leave the folder, or is no path at all."""
    if not isinstance(name, str) or not name or "\\" in name or "\0" in name:
        return True
    return name.startswith(("/", "~")) or ".." in name.split("/")
