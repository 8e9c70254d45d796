"""The report as one self-contained HTML file, and its figures as SVG and PNG.

Imported only for pages and figures: importing matplotlib takes half a second.
"""
