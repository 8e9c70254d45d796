"""What commands show: tables as DataFrames with raw numbers, and sentences; suite.results.render
decides how they look.
"""
