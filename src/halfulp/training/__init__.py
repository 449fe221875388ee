"""Training: data, models, schedules, the write-back and trace hooks, and one runner."""

from halfulp.training.hooks import ReferenceTrace, WriteBack
from halfulp.training.models import Group, dense_groups

__all__ = ["Group", "ReferenceTrace", "WriteBack", "dense_groups"]
