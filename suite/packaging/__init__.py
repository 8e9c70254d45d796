"""Submission trees: written from logs, and checked."""
