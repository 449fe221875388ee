"""Grids, rounding, noise, exact events and native storage. Knows torch, and nothing of training or of files."""

from halfulp.numerics.events import EventCounts, count_events, half_ulp_rule, nearest_erases
from halfulp.numerics.formats import (
    BF16,
    E4M3,
    E5M2,
    FLOAT_FORMATS,
    FP16,
    INT3,
    INT_FORMATS,
    REGISTRY,
    FloatFormat,
    Format,
    IntFormat,
    get_format,
    mantissa,
)
from halfulp.numerics.noise import Noise
from halfulp.numerics.reference import frozen_scale
from halfulp.numerics.rounding import (
    POLICIES,
    STOCHASTIC,
    NonFiniteCandidateError,
    Policy,
    TraceCounts,
    round_nearest,
    round_stochastic,
    trace_,
    write_back_,
)
from halfulp.numerics.storage import NativeTensor, decode_codes, encode_codes

__all__ = [
    "BF16",
    "E4M3",
    "E5M2",
    "FLOAT_FORMATS",
    "FP16",
    "INT3",
    "INT_FORMATS",
    "POLICIES",
    "REGISTRY",
    "STOCHASTIC",
    "EventCounts",
    "FloatFormat",
    "Format",
    "IntFormat",
    "NativeTensor",
    "Noise",
    "NonFiniteCandidateError",
    "Policy",
    "TraceCounts",
    "count_events",
    "decode_codes",
    "encode_codes",
    "frozen_scale",
    "get_format",
    "half_ulp_rule",
    "mantissa",
    "nearest_erases",
    "round_nearest",
    "round_stochastic",
    "trace_",
    "write_back_",
]
