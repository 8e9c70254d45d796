"""Framework environments and plugins.

The package creates, finds, and checks environments. The controller and the command `suite env` use
the package.
"""
