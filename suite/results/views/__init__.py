"""What commands show: tables as DataFrames with raw numbers, and sentences; how they look is decided in suite.results.render."""
