"""`suite scaling`: predictions for more devices.

They use logs, published results, and descriptions of systems.
"""
