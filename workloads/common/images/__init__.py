"""Framework-independent image processing for reading, resizing, batches, and drawing."""
