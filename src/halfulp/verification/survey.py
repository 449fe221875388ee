"""Where the runs are in a folder, and what lies between them."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from halfulp.errors import InputError
from halfulp.registration.document import study_of
from halfulp.report.tables import combine
from halfulp.studies import catalogue

#: A folder with one of these is that of a run, whole or not.
MARKS = ("frozen.json", "run.json", "scores.json", "receipts", "attempts")
#: Files that only runs have.
EVIDENCE = (".parquet", ".safetensors")


@dataclass
class Survey:
    """What a folder holds."""

    runs: list[Path] = field(default_factory=list)
    #: What keeps the whole from being verified: links, unreadable folders, evidence that belongs to no run.
    problems: list[str] = field(default_factory=list)
    #: Files that are no evidence.
    beside: list[str] = field(default_factory=list)


def survey(folder: Path) -> Survey:
    """Look for runs in a folder, itself included; links are named and not followed.

    Raises:
        InputError: there is no such folder, or it holds no run.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a run's folder, or one that holds some")
    found, waiting = Survey(), [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda e: e.name)
        except OSError as error:
            found.problems.append(f"{here}: can't be read ({error.strerror})")
            continue
        if any(entry.name in MARKS for entry in entries):
            found.runs.append(here)
            continue
        for entry in entries:
            path = Path(entry.path)
            if entry.is_symlink():
                found.problems.append(f"{path}: a symbolic link, which is not followed")
            elif entry.is_dir():
                waiting.append(path)
            elif path.suffix in EVIDENCE:
                found.problems.append(f"{path}: evidence that belongs to no run")
            else:
                found.beside.append(str(path))
    found.runs.sort()
    if not found.runs and not found.problems:
        raise InputError(f"{folder}: holds no run; give a run's folder, e.g. results/published/desk/audit-2")
    return found


def check_paper(found: Survey, scratch: Path) -> list[str]:
    """Check the tables beside the paper that stand with several runs; return what is wrong with them.

    Those that are right are taken off ``beside``.
    """
    wrong = []
    for name in [name for name in found.beside if Path(name).name in ("paper.csv", "paper.md", "paper.tex")]:
        scale = Path(name).parent
        runs = [run for run in found.runs if run.parent == scale]
        order = {study: index for index, study in enumerate(catalogue.STUDIES)}
        runs.sort(key=lambda run: order.get(study_of(run.name), len(order)))
        parts = [run / "tables" / "paper.csv" for run in runs]
        if not all(part.is_file() and not part.is_symlink() for part in parts) or not parts:
            continue
        combine(parts, scale.name, scratch / "paper")
        if (scratch / Path(name).name).read_bytes() == Path(name).read_bytes():
            found.beside.remove(name)
        else:
            wrong.append(f"{name}: is not made of the tables beside the paper of its runs")
    return wrong
