"""Input of training and evaluation: counts of the data set, batches, anchor labels, synthetic batches."""
