"""Content of the commands' output: tables with unformatted numbers, and sentences.

suite.results.render formats the content.
"""
