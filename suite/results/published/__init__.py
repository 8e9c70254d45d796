"""Figures of published rounds and articles, and logs that other programs wrote, in the form of our own measurements."""
