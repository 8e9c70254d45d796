"""Tools of maintainers, which the suite does not import."""
