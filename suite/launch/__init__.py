"""Which command starts which process where, one value per framework, and starting and ending process trees.

For workers and controller.
"""
