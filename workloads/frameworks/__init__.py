"""What trainers of one framework share, a folder each.

For trainer files alone: nothing else may import a framework.
"""
