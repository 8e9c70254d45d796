"""`suite compare`: matches two sets of results, shows what differs, ratios with intervals, and convergence."""
