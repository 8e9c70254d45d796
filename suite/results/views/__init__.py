"""Content of the commands: tables with raw numbers, and sentences.

suite.results.render formats them.
"""
