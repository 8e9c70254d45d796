"""Training samples that a framework generates on its device.

Without this package, data.py generates the samples on the host.
"""
