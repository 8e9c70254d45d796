"""The report as one HTML file, and its figures: import only for these, as matplotlib takes half a second."""
