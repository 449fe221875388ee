"""Training: data, models, schedules, the write-back and trace hooks, and one runner."""
