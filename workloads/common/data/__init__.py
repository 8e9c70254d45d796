"""Shared code for data sets: download pages, generated data, text lines, prefetching."""
