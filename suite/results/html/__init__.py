"""The report as one self-contained HTML file, and its figures as SVG and PNG.

Imported for `suite report --html` alone: matplotlib takes half a second.
"""
