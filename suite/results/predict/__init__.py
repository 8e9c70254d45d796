"""`suite scaling`: predictions for more devices, from logs, published results, and descriptions of
systems.
"""
