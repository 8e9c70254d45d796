"""HTML pages and figures.

This package should be imported only when pages or figures are written, because importing vl-convert
takes 0.3 s.
"""
