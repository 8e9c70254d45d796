"""Measurements on a GPU in five stages: right, learns, fast, fed, why.

Start all stages with `make gpu`.
"""
