"""Fused CPU kernels: round, write back and count in one pass over memory, bit for bit equal to ``reference``.

Each kernel walks the tensor in tiles of 1,024 coordinates: touch every cache line of the tile, draw its noise if the
policy needs any, then work from the cache. Touching first is worth a factor of two on tensors larger than the cache,
since one long loop body leaves the processor too little room to run ahead of its loads. Loops are written without
branches on data so that LLVM vectorises them; ``fastmath`` stays off, so that no operation is reordered or contracted.

A float grid's spacing comes from the candidate's exponent bits; an integer grid is walked channel by channel with
that channel's scale as the spacing. Arithmetic is float64 for the reason given in ``reference``.
"""

import math

import numpy as np
from numba import njit

# Numba's cache on disk is keyed by this file alone, so what is compiled in must be written here: `noise` imports it.
#: Coordinates in a tile, and the Philox blocks of four words that serve it.
TILE = 1024
BLOCKS_PER_TILE = TILE // 4
WORD_BITS = 32
#: Constants of Philox4x32-10.
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_INCREMENTS = (0x9E3779B9, 0xBB67AE85)

#: Policy codes that the kernels take.
NEAREST, FULL_SR, DEAD_ZONE_SR = 0, 1, 2
#: Positions in a kernel's vector of counts.
NO_UPDATE, ERASED, SATURATED, NON_FINITE, ERASING_WORDS = range(5)
COUNTS = 5

_M0, _M1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
_K0, _K1 = np.uint32(KEY_INCREMENTS[0]), np.uint32(KEY_INCREMENTS[1])
_EXPONENT = np.uint64(0x7FF) << np.uint64(52)
_FRACTION_BITS = np.uint64(52)
_UNIT_SQUARED = np.uint64(2 * 1023) << np.uint64(52)  # minus a power of two's bits: the bits of its reciprocal
_INTEGERS = 2.0**52  # from here on float64 has no fraction bits
_HIGH = np.uint64(32)
_ALL_WORDS = 2.0**32
_SIGNIFICAND = 2.0**24
_CACHE_LINE = 16  # fp32 values
_NAN = np.float32(np.nan)
_INF = np.float32(np.inf)


@njit(inline="always")
def _pow2(exponent):  # type: ignore[no-untyped-def]
    return np.uint64((exponent + 1023) << 52).view(np.float64)


@njit(inline="always")
def _binade(magnitude, floor):  # type: ignore[no-untyped-def]
    """Return the bits of the largest power of two at or below ``magnitude``, no less than those in ``floor``."""
    bits = np.float64(magnitude).view(np.uint64) & _EXPONENT
    return bits if bits > floor else floor


@njit(inline="always")
def _shifted(bits, exponent):  # type: ignore[no-untyped-def]
    """Return the power of two in ``bits``, times ``2**exponent``; both are exponent fields, so it is an addition."""
    return np.uint64(bits + (np.uint64(exponent) << _FRACTION_BITS)).view(np.float64)


@njit(inline="always")
def _special(x, has_infinities):  # type: ignore[no-untyped-def]
    return x if has_infinities and abs(x) == _INF else _NAN


@njit(inline="always")
def _nearest_float(x, floor, mantissa, limit, has_infinities):  # type: ignore[no-untyped-def]
    """Round to nearest even by adding and subtracting 2**52 spacings, below which float64 has no fraction bits."""
    magnitude = np.float64(abs(x))
    magnitude = magnitude if magnitude < limit else limit
    magic = _shifted(_binade(magnitude, floor), 52 - mantissa)
    rounded = np.float32(np.copysign((magnitude + magic) - magic, np.float64(x)))
    return rounded if abs(x) < _INF else _special(x, has_infinities)


@njit(inline="always")
def _nearest_int(x, step, limit):  # type: ignore[no-untyped-def]
    magnitude = np.float64(abs(x))
    magnitude = magnitude if magnitude < limit else limit
    code = (magnitude / step + _INTEGERS) - _INTEGERS
    rounded = np.float32(np.copysign(code * step, np.float64(x)))
    return rounded if abs(x) < _INF else _NAN


@njit(inline="always")
def _split_float(x, floor, mantissa, limit):  # type: ignore[no-untyped-def]
    """Return (magnitude rounded down, spacing, number of noise words that round up), exact in float64."""
    magnitude = np.float64(abs(x))
    magnitude = magnitude if magnitude < limit else limit
    binade = _binade(magnitude, floor)
    step = _shifted(binade, -mantissa)
    scaled = magnitude * _shifted(_UNIT_SQUARED - binade, mantissa)
    down = np.floor(scaled)
    return down * step, step, np.ceil((scaled - down) * _ALL_WORDS)


@njit(inline="always")
def _split_int(x, step, significand, unit, limit):  # type: ignore[no-untyped-def]
    """As ``_split_float``; the words are the least ``u`` with ``u * significand >= threshold``, as explained at
    ``reference.up_words``: float64 finds it to within one, integers settle it (they divide far more slowly).
    """
    magnitude = np.float64(abs(x))
    magnitude = magnitude if magnitude < limit else limit
    down = np.floor(magnitude / step) * step
    threshold = np.int64(np.ceil((magnitude - down) * unit))
    up = np.int64(np.ceil((magnitude - down) / step * _ALL_WORDS))
    up += np.int64(up * significand < threshold) - np.int64((up - 1) * significand >= threshold)
    return down, step, np.float64(up)


@njit(inline="always")
def _pick(x, down, step, up, word, has_infinities):  # type: ignore[no-untyped-def]
    magnitude = down + step if np.float64(word) < up else down
    rounded = np.float32(np.copysign(magnitude, np.float64(x)))
    return rounded if abs(x) < _INF else _special(x, has_infinities)


@njit(inline="always")
def _erasing(q, c, down, step, up):  # type: ignore[no-untyped-def]
    toward = np.float32(np.copysign(down, np.float64(c)))
    away = np.float32(np.copysign(down + step, np.float64(c)))
    words = _ALL_WORDS - up if q == toward else (up if q == away else 0.0)
    return np.int64(0.0 if c == q or not abs(c) < _INF else words)


@njit(inline="always")
def _touch(a, b):  # type: ignore[no-untyped-def]
    seen = np.float32(0.0)
    for i in range(0, a.size, _CACHE_LINE):
        seen += a[i] * b[i]
    return seen


@njit(inline="always")
def _draw(words, tile, step, key0, key1):  # type: ignore[no-untyped-def]
    """Fill one tile's words: Philox4x32-10, four words from each of 256 blocks (see ``noise``)."""
    for j in range(BLOCKS_PER_TILE):
        block = np.uint64(tile) * np.uint64(BLOCKS_PER_TILE) + np.uint64(j)
        c0, c1, c2, c3 = np.uint32(block), np.uint32(block >> _HIGH), np.uint32(step), np.uint32(0)
        k0, k1 = np.uint32(key0), np.uint32(key1)
        for _ in range(ROUNDS):
            p0, p1 = _M0 * np.uint64(c0), _M1 * np.uint64(c2)
            c0, c1, c2, c3 = (
                np.uint32(p1 >> _HIGH) ^ c1 ^ k0,
                np.uint32(p1),
                np.uint32(p0 >> _HIGH) ^ c3 ^ k1,
                np.uint32(p0),
            )
            k0, k1 = np.uint32(k0 + _K0), np.uint32(k1 + _K1)
        words[j] = c0
        words[BLOCKS_PER_TILE + j] = c1
        words[2 * BLOCKS_PER_TILE + j] = c2
        words[3 * BLOCKS_PER_TILE + j] = c3


@njit(inline="always")
def _tally(counts, q, c, w, limit):  # type: ignore[no-untyped-def]
    """Add the exact events of a tile or a channel to ``counts``: by value, on what was written."""
    proposals = erased = saturated = non_finite = np.uint32(0)
    for i in range(c.size):
        proposed = np.uint32(c[i] != q[i])
        kept = np.uint32(w[i] == q[i]) & proposed
        proposals += proposed
        erased += kept
        saturated += kept & np.uint32(abs(q[i]) == limit) & np.uint32(abs(c[i]) > limit)
        non_finite += np.uint32(not abs(c[i]) < _INF)
    counts[NO_UPDATE] += c.size - np.int64(proposals)
    counts[ERASED] += np.int64(erased)
    counts[SATURATED] += np.int64(saturated)
    counts[NON_FINITE] += np.int64(non_finite)


@njit(cache=True, error_model="numpy")
def write_back_float(c, q, policy, emin, mantissa, limit, has_infinities, step, key0, key1):  # type: ignore[no-untyped-def]
    """Round the candidates ``c`` in place, count events against the stored values ``q``; return the counts."""
    counts = np.zeros(COUNTS, np.int64)
    words = np.zeros(TILE, np.uint32)
    out = np.empty(TILE, np.float32)
    floor = np.uint64(emin + 1023) << _FRACTION_BITS
    seen = np.float32(0.0)
    for tile in range((c.size + TILE - 1) // TILE):
        at, to = tile * TILE, min(c.size, tile * TILE + TILE)
        candidate, stored, written = c[at:to], q[at:to], out[: to - at]
        seen += _touch(candidate, stored)
        if policy == NEAREST:
            for i in range(written.size):
                written[i] = _nearest_float(candidate[i], floor, mantissa, limit, has_infinities)
        else:
            _draw(words, tile, step, key0, key1)
            for i in range(written.size):
                down, spacing, up = _split_float(candidate[i], floor, mantissa, limit)
                written[i] = _pick(candidate[i], down, spacing, up, words[i], has_infinities)
            if policy == DEAD_ZONE_SR:
                for i in range(written.size):
                    near = _nearest_float(candidate[i], floor, mantissa, limit, has_infinities)
                    written[i] = written[i] if near == stored[i] else near
        _tally(counts, stored, candidate, written, np.float32(limit))
        for i in range(written.size):
            candidate[i] = written[i]
    return counts, seen


@njit(cache=True, error_model="numpy")
def trace_float(old, new, shadow, emin, mantissa, limit, has_infinities):  # type: ignore[no-untyped-def]
    """Count what one fp32 step would have caused on this grid; advance ``shadow``; return (local, replay) counts."""
    local = np.zeros(COUNTS, np.int64)
    replay = np.zeros(COUNTS, np.int64)
    out_q, out_c, out_w = np.empty(TILE, np.float32), np.empty(TILE, np.float32), np.empty(TILE, np.float32)
    floor = np.uint64(emin + 1023) << _FRACTION_BITS
    seen = np.float32(0.0)
    for tile in range((old.size + TILE - 1) // TILE):
        at, to = tile * TILE, min(old.size, tile * TILE + TILE)
        before, after, held = old[at:to], new[at:to], shadow[at:to]
        stored, candidate, written = out_q[: to - at], out_c[: to - at], out_w[: to - at]
        seen += _touch(before, after) + _touch(held, held)
        for i in range(written.size):
            q = _nearest_float(before[i], floor, mantissa, limit, has_infinities)
            c = np.float32(q + np.float32(after[i] - before[i]))
            stored[i], candidate[i] = q, c
            written[i] = _nearest_float(c, floor, mantissa, limit, has_infinities)
        _tally(local, stored, candidate, written, np.float32(limit))
        erasing = np.int64(0)
        for i in range(written.size):
            down, spacing, up = _split_float(candidate[i], floor, mantissa, limit)
            erasing += _erasing(stored[i], candidate[i], down, spacing, up)
        local[ERASING_WORDS] += erasing
        for i in range(written.size):
            c = np.float32(held[i] + np.float32(after[i] - before[i]))
            candidate[i] = c
            written[i] = _nearest_float(c, floor, mantissa, limit, has_infinities)
        _tally(replay, held, candidate, written, np.float32(limit))
        for i in range(written.size):
            held[i] = written[i]
    return local, replay, seen


@njit(inline="always")
def _channel(scale, max_code):  # type: ignore[no-untyped-def]
    """Return a channel's (spacing, largest magnitude, integer significand, 2**32 over the significand's unit)."""
    spacing = np.float64(scale)
    fraction, exponent = math.frexp(spacing)
    return spacing, max_code * spacing, np.int64(fraction * _SIGNIFICAND), _pow2(np.int64(56 - exponent))


@njit(inline="always")
def _draw_range(words, tile_words, drawn, at, count, step, key0, key1):  # type: ignore[no-untyped-def]
    """Copy the words of coordinates ``at … at + count`` to ``words``; return the tile that is drawn now."""
    for i in range(count):
        if (at + i) // TILE != drawn:
            drawn = (at + i) // TILE
            _draw(tile_words, drawn, step, key0, key1)
        words[i] = tile_words[(at + i) % TILE]
    return drawn


@njit(cache=True, error_model="numpy")
def write_back_int(c, q, policy, scales, outer, inner, max_code, step, key0, key1):  # type: ignore[no-untyped-def]
    """As ``write_back_float`` for an integer grid; ``c`` is (outer, channels, inner) flattened, one scale a channel."""
    counts = np.zeros(COUNTS, np.int64)
    tile_words, words = np.zeros(TILE, np.uint32), np.zeros(inner, np.uint32)
    written = np.empty(inner, np.float32)
    drawn = -1
    for row in range(outer * scales.size):
        spacing, limit, significand, unit = _channel(scales[row % scales.size], max_code)
        candidate, stored = c[row * inner : (row + 1) * inner], q[row * inner : (row + 1) * inner]
        if policy != FULL_SR:
            for i in range(inner):
                written[i] = _nearest_int(candidate[i], spacing, limit)
        if policy != NEAREST:
            drawn = _draw_range(words, tile_words, drawn, row * inner, inner, step, key0, key1)
            for i in range(inner):
                down, gap, up = _split_int(candidate[i], spacing, significand, unit, limit)
                picked = _pick(candidate[i], down, gap, up, words[i], False)
                written[i] = picked if policy == FULL_SR or written[i] == stored[i] else written[i]
        _tally(counts, stored, candidate, written, np.float32(limit))
        for i in range(inner):
            candidate[i] = written[i]
    return counts, np.float32(0.0)


@njit(cache=True, error_model="numpy")
def trace_int(old, new, shadow, scales, outer, inner, max_code):  # type: ignore[no-untyped-def]
    """As ``trace_float`` for an integer grid."""
    local = np.zeros(COUNTS, np.int64)
    replay = np.zeros(COUNTS, np.int64)
    stored, candidate, written = np.empty(inner, np.float32), np.empty(inner, np.float32), np.empty(inner, np.float32)
    for row in range(outer * scales.size):
        spacing, limit, significand, unit = _channel(scales[row % scales.size], max_code)
        at, to = row * inner, (row + 1) * inner
        before, after, held = old[at:to], new[at:to], shadow[at:to]
        for i in range(inner):
            stored[i] = _nearest_int(before[i], spacing, limit)
            candidate[i] = np.float32(stored[i] + np.float32(after[i] - before[i]))
            written[i] = _nearest_int(candidate[i], spacing, limit)
        _tally(local, stored, candidate, written, np.float32(limit))
        erasing = np.int64(0)
        for i in range(inner):
            down, gap, up = _split_int(candidate[i], spacing, significand, unit, limit)
            erasing += _erasing(stored[i], candidate[i], down, gap, up)
        local[ERASING_WORDS] += erasing
        for i in range(inner):
            candidate[i] = np.float32(held[i] + np.float32(after[i] - before[i]))
            written[i] = _nearest_int(candidate[i], spacing, limit)
        _tally(replay, held, candidate, written, np.float32(limit))
        for i in range(inner):
            held[i] = written[i]
    return local, replay, np.float32(0.0)
