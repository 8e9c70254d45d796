"""GNMT: recurrent translation from English to German, MLPerf Training v0.5 to v0.7.

Each framework has a module with its trainer.
"""
