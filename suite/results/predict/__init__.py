"""Predictions of `suite scaling` for larger numbers of devices.

The predictions use logs, published results, and descriptions of systems.
"""
