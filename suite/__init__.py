"""The runner: composes settings, launches workers, times training to a quality target, and reads
the logs.
"""

__version__ = "0.1.0"
