"""Code for data sets of every kind: download pages, generated data, text lines, prefetching."""
