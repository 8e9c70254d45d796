"""HTML pages and figures.

Import this package only if pages or figures are written, because importing vl-convert takes 0.3 s.
"""
