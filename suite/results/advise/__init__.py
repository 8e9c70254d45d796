"""`suite advise` (on how many devices to run) and `suite tables` (the scaling article's tables)."""
