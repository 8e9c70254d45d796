"""`suite compare`: two sides matched, what differs between them, ratios with intervals, convergence."""
