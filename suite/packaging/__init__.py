"""Writes submission trees from logs, and checks them."""
