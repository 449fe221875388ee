"""Claim: a table's digest of contents knows its values and nothing of its bytes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from halfulp.errors import InputError
from halfulp.training.tables import content_digest, file_contents, write_table

COLUMNS = {"step": [1, 2, None], "value": [0.5, None, -0.0], "group": ["a", "", "é"]}


def table(**changes: list[object]) -> pa.Table:
    schema = pa.schema([("step", pa.int64()), ("value", pa.float64()), ("group", pa.string())])
    return pa.table(COLUMNS | changes, schema=schema)


def test_bytes_may_differ_and_contents_be_equal(tmp_path: Path) -> None:
    write_table(table(), tmp_path / "a.parquet")
    pq.write_table(table(), tmp_path / "b.parquet", compression="none", row_group_size=1)
    assert (tmp_path / "a.parquet").read_bytes() != (tmp_path / "b.parquet").read_bytes()
    assert file_contents(tmp_path / "a.parquet") == file_contents(tmp_path / "b.parquet") == content_digest(table())


@pytest.mark.parametrize(
    "other",
    [
        table(step=[1, 3, None]),
        table(step=[1, 2, 0]),
        table(value=[0.5, 0.0, -0.0]),
        table(value=[0.5, None, 0.0]),
        table(group=["a", "é", ""]),
        table(group=["a", None, "é"]),
        table().slice(0, 2),
        table().select(["value", "step", "group"]),
        table().rename_columns(["step", "value", "groups"]),
        table().set_column(0, "step", pa.array([1.0, 2.0, None])),
    ],
)
def test_any_change_of_contents_is_seen(other: pa.Table) -> None:
    assert content_digest(other) != content_digest(table())


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(InputError, match="not a table of this project"):
        file_contents(tmp_path / "x.parquet")
