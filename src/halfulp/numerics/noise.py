"""Counter-based random words for stochastic rounding.

A word is a pure function of (seed, step, tensor name, coordinate): Philox4x32-10 of Salmon et al., "Parallel Random
Numbers: As Easy as 1, 2, 3" (SC 2011). Nothing is carried from one draw to the next, so a run that was resumed, or
whose tensors were divided differently over machines, draws the same bits.

The 64-bit key is the beginning of SHA-256 of seed and tensor name; the counter holds the block number and the step.
Coordinates are dealt in tiles of 1,024: coordinate ``i`` of a tile takes word ``i // 256`` of the tile's block
``i % 256``. Neighbouring coordinates thus come from neighbouring blocks, which is what lets a CPU run blocks side by
side in its vector registers.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from halfulp.numerics.kernels import BLOCKS_PER_TILE, KEY_INCREMENTS, MULTIPLIERS, ROUNDS, TILE, WORD_BITS

_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Noise:
    """The address of one tensor's noise at one step."""

    #: Seed of the run.
    seed: int
    #: Optimizer step, from 0 to ``2**32 - 1``.
    step: int
    #: Name of the tensor in the model.
    tensor: str

    def key(self) -> tuple[int, int]:
        """Return the two 32-bit key words for this seed and tensor."""
        digest = hashlib.sha256(f"halfulp.noise/1\n{self.seed}\n{self.tensor}".encode()).digest()
        return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")

    def words(self, shape: torch.Size | tuple[int, ...], device: torch.device | str = "cpu") -> Tensor:
        """Return 32-bit words as int64 values in ``[0, 2**32)``, one per coordinate of ``shape``."""
        count = torch.Size(shape).numel()
        tiles = -(-count // TILE)
        block = torch.arange(tiles * BLOCKS_PER_TILE, dtype=torch.int64, device=device)
        step = torch.full_like(block, self.step & _MASK)
        lanes = philox((block & _MASK, block >> WORD_BITS, step, torch.zeros_like(block)), self.key())
        dealt = torch.stack([lane.view(tiles, BLOCKS_PER_TILE) for lane in lanes], dim=1)
        return dealt.reshape(-1)[:count].reshape(shape)


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """Philox4x32-10 on int64 tensors that hold 32-bit words.

    Args:
        counter: four tensors of one shape, values in ``[0, 2**32)``.
        key: two words.

    Returns:
        Four tensors of the counter's shape, values in ``[0, 2**32)``.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        # The product's 64 bits may wrap into the sign; masking after the shift keeps the upper word right.
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            ((p1 >> WORD_BITS) & _MASK) ^ c1 ^ k0,
            p1 & _MASK,
            ((p0 >> WORD_BITS) & _MASK) ^ c3 ^ k1,
            p0 & _MASK,
        )
        k0, k1 = (k0 + KEY_INCREMENTS[0]) & _MASK, (k1 + KEY_INCREMENTS[1]) & _MASK
    return c0, c1, c2, c3
