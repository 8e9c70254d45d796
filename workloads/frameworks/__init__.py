"""Code that several trainers of a framework share, with one folder per framework.

Only trainer files import these packages. All other modules must not import a framework.
"""
