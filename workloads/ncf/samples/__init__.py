"""Training samples made by a framework on its device, where data.py would make them on the host."""
