"""Claim: split and batches are pure functions of the registered seeds; a different text is refused."""

import hashlib
from pathlib import Path

import pytest
import torch

from halfulp.errors import InputError
from halfulp.training.data import Blocks, load_text
from tests.unit.training import tiny


def test_the_registered_text_is_the_king_james_bible() -> None:
    text = load_text(tiny.data())
    assert text.startswith(b"In the beginning God created the heaven and the earth.")
    assert len(text) == 4_185_991


def test_batches_depend_on_data_seed_run_seed_and_step_alone() -> None:
    blocks = tiny.blocks()
    first = blocks.batch(3, run_seed=1)
    blocks.batch(9, run_seed=1)
    assert torch.equal(first, blocks.batch(3, run_seed=1))
    assert first.shape == (4, 17)
    assert not torch.equal(first, blocks.batch(3, run_seed=2))
    assert not torch.equal(first, blocks.batch(4, run_seed=1))


def test_an_epoch_visits_every_training_block_once_and_no_validation_block() -> None:
    text = bytes(range(256)) * 8
    config = tiny.data().model_copy(update={"validation_blocks": 2})
    blocks = Blocks.from_text(text, config)
    per_epoch = len(blocks.train) // 4
    for epoch in (0, 1):
        rows = torch.cat([blocks.batch(epoch * per_epoch + i, run_seed=7) for i in range(per_epoch)])
        seen = {tuple(row.tolist()) for row in rows}
        assert len(rows) == per_epoch * 4
        assert seen <= {tuple(row.tolist()) for row in blocks.train}
    total = len(text) // 17
    assert len(blocks.train) == total - int(total * 0.1)


def test_a_file_is_accepted_with_its_digest_and_refused_with_another(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("In principio " * 100, encoding="utf-8")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert load_text(tiny.data(str(path), digest)).startswith(b"In principio")
    with pytest.raises(InputError, match=r"text\.txt: data\.sha256: the text has"):
        load_text(tiny.data(str(path), "0" * 64))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8 at byte 0"):
        load_text(tiny.data(str(path), digest))
    with pytest.raises(InputError, match="No such file"):
        load_text(tiny.data(str(tmp_path / "absent"), digest))


def test_a_short_text_is_refused() -> None:
    with pytest.raises(InputError, match="2 blocks of 17 bytes"):
        Blocks.from_text(b"x" * 40, tiny.data())
