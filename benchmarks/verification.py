"""What verification costs: the published folder, and hashing beside the `sha256sum` program on the same files."""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from halfulp.registration.digests import sha256_file
from timing import best_of, machine

PUBLISHED = Path("results/published")


def hashing(files: list[Path]) -> tuple[float, float]:
    """Return the seconds of our hashing and of `sha256sum` for some files."""
    ours = best_of(lambda: [sha256_file(path) for path in files])
    command = ["sha256sum", *map(str, files)]
    theirs = best_of(lambda: subprocess.run(command, capture_output=True, check=True))
    return ours, theirs


def main() -> None:
    print(machine())
    command = [sys.executable, "-m", "halfulp", "verify", str(PUBLISHED)]
    seconds = best_of(lambda: subprocess.run(command, capture_output=True, check=True), repetitions=2)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**10
    print(f"verify {PUBLISHED}: {seconds:.1f} s, peak {peak:.0f} MiB (targets: 20 s, 1024 MiB)")
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder, "large")
        large.write_bytes(bytes(range(256)) * (1 << 21))
        sets = {"one file of 512 MiB": [large], "the published files": [p for p in PUBLISHED.rglob("*") if p.is_file()]}
        for name, files in sets.items():
            ours, theirs = hashing(files)
            size = sum(path.stat().st_size for path in files) / 2**20
            print(f"hash {name} ({size:.0f} MiB): {size / ours:.0f} MiB/s, sha256sum {size / theirs:.0f} MiB/s, "
                  f"ratio {theirs / ours:.2f} (target: 0.8)")  # fmt: skip


if __name__ == "__main__":
    main()
