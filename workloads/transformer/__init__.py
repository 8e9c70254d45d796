"""Transformer: translation with attention, MLPerf Training v0.5 to v0.7.

Each framework has a module with its trainer.
"""
