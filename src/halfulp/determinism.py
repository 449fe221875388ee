"""What has to be pinned so that the same registration gives the same bytes, whatever ``--cores`` says.

torch, MKL and oneDNN choose their code paths by CPU and their summation order by thread count. Snakemake exports
``OMP_NUM_THREADS`` from a rule's ``threads:``, so the pins are made inside the job. They only take effect before torch
is imported, which is why this module imports nothing.
"""

import os
import sys

#: Environment variables of a job, with their values.
PINS = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def pin() -> None:
    """Pin CPU capability and threads, then import torch and switch it to deterministic algorithms.

    Raises:
        RuntimeError: torch was imported earlier with other settings, so that the pins would come too late.
    """
    late = "torch" in sys.modules and any(os.environ.get(name) != value for name, value in PINS.items())
    if late:
        raise RuntimeError("torch was imported before its environment was pinned: call determinism.pin() first")
    os.environ.update(PINS)

    import torch

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def environment() -> dict[str, str | int]:
    """Return what a receipt records of the environment: versions, CPU capability, threads, device."""
    import platform
    from importlib.metadata import version

    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "transformers": version("transformers"),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
