"""Training samples that a framework generates on its device.

If a framework has no module in this package, data.py generates the samples on the host.
"""
