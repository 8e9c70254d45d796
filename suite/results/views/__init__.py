"""Content of the commands' output: tables with raw numbers, and sentences.

suite.results.render formats the content.
"""
