"""`suite report` and `suite published`: tables as Markdown and CSV."""
