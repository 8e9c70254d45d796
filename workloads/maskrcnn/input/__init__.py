"""Input of training and evaluation: counts, batches, anchor labels, and synthetic batches."""
