"""How numbers are printed."""

from typing import Any

import pandas as pd


def number(value: Any) -> str:
    """Print a cell: four significant digits, an en dash for what is missing."""
    if value is None or pd.isna(value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
