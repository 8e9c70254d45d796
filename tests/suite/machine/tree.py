"""A synthetic /proc and /sys."""


def tree(root, files):
    """Write these files (name to content) below `root`, and return `root`."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root
