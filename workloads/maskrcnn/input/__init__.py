"""Input of training and evaluation: sizes, batches, anchor labels, synthetic batches."""
