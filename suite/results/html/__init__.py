"""The report as one self-contained HTML file, and its figures as SVG and PNG.

Imported only for `suite report --html`: importing matplotlib takes half a second.
"""
