"""Learning-rate schedules as pure functions of the step.

``cosine`` falls from the peak to ``final_fraction`` of it along half a cosine. ``constant_mid`` stays at the mean of
those two rates, so that it spends the same total rate. ``cosine_restart`` is two equal cosines, with a warm restart in
the middle (SGDR: Loshchilov & Hutter, 2017). All begin with a linear warm-up to the rate they start from.
"""

import math

from halfulp.training.config import ScheduleConfig


def learning_rate(step: int, *, peak: float, steps: int, schedule: ScheduleConfig) -> float:
    """Return the rate of optimizer step ``step`` (0-based; the first warm-up step already has a rate above 0)."""
    warmup, floor = schedule.warmup_steps, peak * schedule.final_fraction
    if schedule.name == "constant_mid":
        start = (peak + floor) / 2
        return start * min(1.0, (step + 1) / (warmup + 1))
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    done, length = step - warmup, steps - warmup
    if schedule.name == "cosine_restart":
        half = (length + 1) // 2
        done, length = (done, half) if done < half else (done - half, length - half)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * done / max(1, length - 1)))
