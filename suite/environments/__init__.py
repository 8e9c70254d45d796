"""Framework environments and plugins: creates them from locks, finds and checks them.

Used by the controller and `suite env`.
"""
