"""Write submission trees from logs, and check submission trees."""
