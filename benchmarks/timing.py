"""Timing that both benchmarks share: the best of several repetitions, since noise only ever adds."""

import os
import platform
import time
from collections.abc import Callable

import torch


def best_of(action: Callable[[], object], repetitions: int = 5) -> float:
    """Return the shortest of several timings, in seconds, after one run to warm up."""
    action()
    timings = []
    for _ in range(repetitions):
        started = time.perf_counter()
        action()
        timings.append(time.perf_counter() - started)
    return min(timings)


def machine() -> str:
    """Describe the machine in one line."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    threads = torch.get_num_threads()
    return (
        f"{models[0] if models else platform.machine()}, {threads} of {os.cpu_count()} cores, torch {torch.__version__}"
    )
