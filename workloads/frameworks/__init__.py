"""Code that the trainers of one framework share, with one folder per framework.

Only trainer files import these packages. All remaining modules must not import a framework.
"""
