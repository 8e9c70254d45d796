"""Adds the results of a published round to the files in `logs/published/`.

Example: `python -m tools.published REPOSITORY --round v5.1 --into logs/published`.
"""
