"""The tables that runs exchange, with their types: Parquet files whose bytes depend on their contents alone."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from halfulp.errors import IncompleteError, InputError

_EVENTS = [
    ("no_update", pa.int64()),
    ("erased", pa.int64()),
    ("moved", pa.int64()),
    ("saturated", pa.int64()),
]

#: One row per recorded step and group: what the write-back did.
COUNTS = pa.schema([("step", pa.int64()), ("group", pa.string()), *_EVENTS])

#: One row per recorded step, group, format and kind (``local`` or ``replay``): what an fp32 run's updates would cause.
#: ``erasing_words / 2**32`` is the expected number of updates that stochastic rounding erases (``local`` only).
TRACE = pa.schema(
    [
        ("step", pa.int64()),
        ("group", pa.string()),
        ("format", pa.string()),
        ("kind", pa.string()),
        *_EVENTS,
        ("erasing_words", pa.int64()),
    ]
)

#: One row per optimizer step (``train``) and evaluation (``validation``); losses in nats per token.
LOSSES = pa.schema(
    [
        ("step", pa.int64()),
        ("split", pa.string()),
        ("loss", pa.float64()),
        ("learning_rate", pa.float64()),
        ("gradient_norm", pa.float64()),
    ]
)

#: One row per evaluation and validation block; the mean loss of its tokens in nats. All runs of a study evaluate the
#: same blocks in the same order.
VALIDATION = pa.schema([("step", pa.int64()), ("block", pa.int64()), ("loss", pa.float64())])


#: No table of this project comes near this number of cells; a file of a few bytes may claim to hold more.
MOST_CELLS = 50_000_000


def make_table(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """Build a table of ``schema`` from rows in its column order."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def write_table(table: pa.Table, path: Path) -> None:
    """Write Parquet; the same contents give the same bytes under the pinned pyarrow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", write_statistics=False, store_schema=False)


def content_digest(table: pa.Table) -> str:
    """Return a SHA-256 of a table's columns and values, whatever bytes Parquet put them in.

    Column by column: name, type, which rows are null, then the values: numbers as little-endian bytes, text as UTF-8
    with lengths.
    """
    digest = hashlib.sha256(f"{table.num_rows}\n".encode())
    for field in table.schema:
        column = table.column(field.name).combine_chunks()
        digest.update(f"{field.name}\n{field.type}\n".encode())
        digest.update(np.packbits(column.is_null().to_numpy(zero_copy_only=False)).tobytes())
        if pa.types.is_string(field.type):
            texts = [text.encode() for text in column.fill_null("").to_pylist()]
            digest.update(b"".join(len(text).to_bytes(8, "little") + text for text in texts))
        else:
            values = column.fill_null(0).to_numpy(zero_copy_only=False)
            digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def file_contents(path: Path) -> str:
    """Return the :func:`content_digest` of a Parquet file of any schema.

    Raises:
        InputError: the file is not Parquet.
    """
    try:
        with path.open("rb") as file:
            metadata = pq.read_metadata(file)
        if metadata.num_rows * metadata.num_columns > MOST_CELLS:
            raise InputError(f"{path}: {metadata.num_rows} rows, no table of a run has nearly as many; restore it")
        return content_digest(_read(path))
    except (pa.ArrowException, TypeError, ValueError, OSError) as error:
        raise InputError(f"{path}: not a table of this project ({str(error).splitlines()[0]}); restore it") from error


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read Parquet and insist on a schema.

    Raises:
        IncompleteError: the file is missing.
        InputError: the file is not Parquet, or its columns are not those expected.
    """
    if not path.is_file():
        raise IncompleteError(f"{path}: missing; run the rule that makes it")
    table = _read(path)
    if not table.schema.equals(schema, check_metadata=False):
        raise InputError(
            f"{path}: columns {table.schema.names}, expected {schema.names} with their types; rerun its rule"
        )
    return table


def _read(path: Path) -> pa.Table:
    try:
        with path.open("rb") as file:
            return pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path}: not a readable Parquet file ({str(error).splitlines()[0]}); delete and rerun"
        ) from error
