"""Networks without a framework: layers of residual trunks, initial values, and pretrained weights from published files."""
