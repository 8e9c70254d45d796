"""Framework-independent image processing: reading, resizing, batches, and drawing for the demos."""
