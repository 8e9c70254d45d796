"""`suite scaling`: predicts what more devices bring, from our logs, published rows and descriptions of systems."""
