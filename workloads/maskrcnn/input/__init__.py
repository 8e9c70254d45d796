"""What goes into training and evaluation: counts of the data, batches, anchors' labels, synthetic batches."""
