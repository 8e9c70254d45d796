"""Write and check submission trees."""
