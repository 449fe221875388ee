"""Throughput of rounding 16M fp32 values, as a multiple of the time of a plain copy. Run: make benchmarks."""

from halfulp import determinism

determinism.pin()

import gfloat  # noqa: E402
import gfloat.formats  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from halfulp.numerics import BF16, E4M3, Noise, round_nearest, trace_, write_back_  # noqa: E402
from timing import best_of, machine  # noqa: E402

SIZE = 1 << 24
#: gfloat works value by value in float64; a part is timed and scaled.
GFLOAT_SHARE = 64


def main() -> None:
    """Print one Markdown row a method."""
    generator = torch.Generator().manual_seed(0)
    stored = round_nearest(torch.randn(SIZE, generator=generator) * 0.05, E4M3)
    values = stored + torch.randn(SIZE, generator=generator) * 1e-3
    target, noise = torch.empty_like(values), Noise(1, 2, "weight")
    array = values.numpy()
    part = array[: SIZE // GFLOAT_SHARE].astype(np.float64)
    scratch, shadow = values.clone(), stored.clone()

    def written(fmt, policy):
        return lambda: write_back_(scratch.copy_(values), stored, fmt, policy, noise=noise)

    copy = best_of(lambda: target.copy_(values))
    # Each of ours overwrites its input, so it is timed with the copy that restores it, and the copy is taken off.
    rows = [
        ("plain copy", copy, "none"),
        ("halfulp E4M3 nearest", best_of(written(E4M3, "nearest")) - copy, "exact events"),
        ("halfulp E4M3 full_sr", best_of(written(E4M3, "full_sr")) - copy, "exact events"),
        ("halfulp E4M3 dead_zone_sr", best_of(written(E4M3, "dead_zone_sr")) - copy, "exact events"),
        ("halfulp bf16 full_sr", best_of(written(BF16, "full_sr")) - copy, "exact events"),
        ("halfulp E4M3 trace", best_of(lambda: trace_(stored, values, shadow, E4M3)), "local, replay, expected"),
        ("torch E4M3 cast and back", best_of(lambda: target.copy_(values.to(torch.float8_e4m3fn))), "none"),
        ("torch bf16 cast and back", best_of(lambda: target.copy_(values.to(torch.bfloat16))), "none"),
        ("ml_dtypes E4M3 cast and back", best_of(lambda: _ml_dtypes(array)), "none"),
        ("gfloat E4M3 (scaled up)", best_of(lambda: _gfloat(part)) * GFLOAT_SHARE, "none"),
    ]
    try:
        from torchao.optim.quant_utils import _fp32_to_bf16_sr

        rows.append(("torchao bf16 stochastic", best_of(lambda: _fp32_to_bf16_sr(values)), "none"))
    except ImportError:
        print("torchao is not installed; its row is left out")
    print(f"{SIZE:,} fp32 values; {machine()}\n")
    print("| method | ms | × copy | counts |\n|---|---:|---:|---|")
    for name, seconds, counted in rows:
        print(f"| {name} | {seconds * 1e3:.1f} | {seconds / copy:.2f} | {counted} |")


def _ml_dtypes(array):
    return array.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


def _gfloat(part):
    return gfloat.round_ndarray(gfloat.formats.format_info_ocp_e4m3, part, gfloat.RoundMode.TiesToEven, sat=True)


main()
