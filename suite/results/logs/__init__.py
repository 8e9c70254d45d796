"""From the bytes of a log to a typed record, whoever wrote it, and finding the logs of runs below folders.

For all results.
"""
