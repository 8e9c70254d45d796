"""Framework-independent image code: reading, resizing, batches, and drawing."""
