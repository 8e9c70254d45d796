"""The report as one HTML file, and its figures: import only for these, as vl-convert takes 0.3 s."""
