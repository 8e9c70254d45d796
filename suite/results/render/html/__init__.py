"""HTML pages and figures.

Import this package only to write them, because vl-convert takes 0.3 s to import.
"""
