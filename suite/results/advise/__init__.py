"""`suite advise` and `suite tables`: what to run on how many devices, and the scaling article's tables."""
