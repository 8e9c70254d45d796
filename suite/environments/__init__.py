"""Framework environments and plugins: making them from locks, finding and checking them.

For the controller and `suite env`.
"""
