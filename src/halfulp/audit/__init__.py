"""Predictors, scores, gates and decomposition: pure functions of tables."""
