"""A pretended /proc and /sys."""


def tree(root, files):
    """Write these files (name to content) below `root`, which is given back."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root
