"""Cost of the audit in a training step at the desk shape: plain, with write-back, with a trace. Run: make benchmarks.

The variants take turns step by step in one process, so that whatever else the machine does meets them alike; each
variant's time is the median of its steps. Peak memory is that of a process of its own for each variant.
"""

from halfulp import determinism

determinism.pin()

import resource  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import torch  # noqa: E402

from halfulp.studies.audit import AuditRegistration  # noqa: E402
from halfulp.studies.catalogue import load  # noqa: E402
from halfulp.training.data import Blocks, load_text  # noqa: E402
from halfulp.training.hooks import ReferenceTrace, WriteBack  # noqa: E402
from halfulp.training.models import build_model, next_token_loss  # noqa: E402
from halfulp.training.runner import build_optimizer  # noqa: E402
from timing import machine  # noqa: E402

STEPS, WARM_UP = 120, 10
VARIANTS = ("plain", "E4M3 write-back", "trace of three formats", "bf16 full_sr, native")


def prepare(variant: str, registration: AuditRegistration):
    """Return a model and its optimizer with the variant's hook attached."""
    config = registration.training
    model = build_model(config.model, 1)
    optimizer = build_optimizer(model, config.optimizer)
    if variant == "E4M3 write-back":
        WriteBack(model, "e4m3").attach(optimizer)
    elif variant == "trace of three formats":
        ReferenceTrace(model, ("e4m3", "e5m2", "bf16")).attach(optimizer)
    elif variant == "bf16 full_sr, native":
        WriteBack(model, "bf16", "full_sr", storage="native").attach(optimizer)
    return model, optimizer


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> float:
    """Train one step; return its seconds."""
    started = time.perf_counter()
    loss = next_token_loss(model, batch)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return time.perf_counter() - started


def main() -> None:
    """Print one Markdown row a variant."""
    registration = load(Path("preregistration/desk/audit.yaml"))
    data = registration.training.data
    blocks = Blocks.from_text(load_text(data), data)
    if len(sys.argv) > 1:  # a process of its own, for its peak memory
        model, optimizer = prepare(sys.argv[1], registration)
        for index in range(5):
            step(model, optimizer, blocks.batch(index, 1))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    prepared = {variant: prepare(variant, registration) for variant in VARIANTS}
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for index in range(STEPS + WARM_UP):
        for variant, (model, optimizer) in prepared.items():
            taken = step(model, optimizer, blocks.batch(index, 1))
            if index >= WARM_UP:
                seconds[variant].append(taken)
    medians = {variant: statistics.median(times) for variant, times in seconds.items()}
    memory = {variant: peak_kilobytes(variant) for variant in VARIANTS}
    print(f"\ndesk shape; {machine()}\n")
    print("| variant | ms a step | × plain | peak MiB | × plain |\n|---|---:|---:|---:|---:|")
    for variant in VARIANTS:
        time_ratio, memory_ratio = medians[variant] / medians["plain"], memory[variant] / memory["plain"]
        row = f"{medians[variant] * 1e3:.1f} | {time_ratio:.2f} | {memory[variant] / 1024:.0f} | {memory_ratio:.2f}"
        print(f"| {variant} | {row} |")


def peak_kilobytes(variant: str) -> int:
    """Return the peak resident memory of a process that trains this variant alone."""
    return int(subprocess.run([sys.executable, __file__, variant], capture_output=True, check=True, text=True).stdout)


main()
