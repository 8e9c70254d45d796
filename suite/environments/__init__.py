"""Framework environments and plugins.

The package creates, finds, and checks environments. The controller and `suite env` use it.
"""
