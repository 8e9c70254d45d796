"""Images without a framework: reading, resizing, batches in place, and drawing for the demo data sets."""
