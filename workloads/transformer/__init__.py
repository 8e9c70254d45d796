"""Transformer: translation by attention, MLPerf Training v0.5 to v0.7. Trainers: one module per framework."""
