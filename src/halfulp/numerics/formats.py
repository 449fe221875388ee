"""The registry of storage grids: formats are data.

A float format is described by its parameters alone; every routine of this package works from them, so that adding
an entry to ``FLOAT_FORMATS`` is all it takes to round to it, to trace it and to have it tested.

Sources: E4M3 and E5M2 are those of the OCP 8-bit Floating Point Specification (revision 1.0), E4M3 being the "FN"
variant without infinities; fp16 is IEEE 754 binary16; bf16 is binary32 with its significand cut to 8 bits.
"""

from dataclasses import dataclass

FP32_MANTISSA_BITS = 23
MANTISSA_WIDTHS = range(1, FP32_MANTISSA_BITS + 1)


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """A binary floating-point grid whose values are all representable in fp32."""

    #: Registry name, lower case.
    name: str
    #: Width of the exponent field in bits.
    exponent_bits: int
    #: Width of the stored (trailing) significand in bits, without the implicit leading one.
    mantissa_bits: int
    #: Exponent bias; the smallest normal exponent is ``1 - bias``.
    bias: int
    #: Largest finite value. Values beyond it saturate: the write-back clamps before it rounds.
    max_finite: float
    #: Whether codes for ±infinity exist. Where they do not, an infinite input becomes NaN, never a number.
    has_infinities: bool
    #: Name of the torch dtype that stores the format natively, if torch has one.
    torch_dtype: str | None = None

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value; subnormals share its spacing."""
        return 1 - self.bias

    @property
    def bits(self) -> int:
        """Storage width in bits: sign, exponent and mantissa."""
        return 1 + self.exponent_bits + self.mantissa_bits


@dataclass(frozen=True, kw_only=True)
class IntFormat:
    """A symmetric integer grid: codes ``-max_code … max_code`` times one scale per output channel.

    The scale is ``absmax / max_code``, taken once from the initial weights and then frozen, so that no coordinate ever
    moves because its scale did. It is rounded up to ``24 - (bits - 1)`` significant bits, which makes every product
    ``code * scale`` exact in fp32 and lets no initial weight saturate; the change is below one part in ``2**20``.
    """

    #: Registry name, lower case.
    name: str
    #: Width of a code in bits (two's complement; the most negative code is unused).
    bits: int

    @property
    def max_code(self) -> int:
        """Largest code."""
        return 2 ** (self.bits - 1) - 1


Format = FloatFormat | IntFormat


def mantissa(width: int) -> FloatFormat:
    """Return the mantissa-truncation emulator's grid: fp32's exponent range with ``width`` mantissa bits (1 to 23)."""
    if width not in MANTISSA_WIDTHS:
        raise ValueError(f"mantissa width {width}: use a width from 1 to {FP32_MANTISSA_BITS}")
    return FloatFormat(
        name=f"mantissa{width}",
        exponent_bits=8,
        mantissa_bits=width,
        bias=127,
        max_finite=(2.0 - 2.0**-width) * 2.0**127,
        has_infinities=True,
    )


E4M3 = FloatFormat(
    name="e4m3",
    exponent_bits=4,
    mantissa_bits=3,
    bias=7,
    max_finite=448.0,
    has_infinities=False,
    torch_dtype="float8_e4m3fn",
)
E5M2 = FloatFormat(
    name="e5m2",
    exponent_bits=5,
    mantissa_bits=2,
    bias=15,
    max_finite=57344.0,
    has_infinities=True,
    torch_dtype="float8_e5m2",
)
BF16 = FloatFormat(
    name="bf16",
    exponent_bits=8,
    mantissa_bits=7,
    bias=127,
    max_finite=(2.0 - 2.0**-7) * 2.0**127,
    has_infinities=True,
    torch_dtype="bfloat16",
)
FP16 = FloatFormat(
    name="fp16",
    exponent_bits=5,
    mantissa_bits=10,
    bias=15,
    max_finite=65504.0,
    has_infinities=True,
    torch_dtype="float16",
)
INT3 = IntFormat(name="int3", bits=3)

FLOAT_FORMATS: tuple[FloatFormat, ...] = (E4M3, E5M2, BF16, FP16, *(mantissa(m) for m in MANTISSA_WIDTHS))
INT_FORMATS: tuple[IntFormat, ...] = (INT3,)
REGISTRY: dict[str, Format] = {fmt.name: fmt for fmt in FLOAT_FORMATS} | {fmt.name: fmt for fmt in INT_FORMATS}


def get_format(name: str) -> Format:
    """Look a format up by name, in any case: ``"e4m3"``, ``"bf16"``, ``"mantissa7"``, ``"int3"``.

    Raises:
        ValueError: the name is not in the registry; the message lists the names that are.
    """
    fmt = REGISTRY.get(name.lower())
    if fmt is None:
        named = ", ".join(key for key in REGISTRY if not key.startswith("mantissa"))
        raise ValueError(f"unknown format {name!r}: use one of {named}, mantissa1 … mantissa{FP32_MANTISSA_BITS}")
    return fmt
