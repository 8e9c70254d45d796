"""The tables of `suite report` and `suite published`, as Markdown and CSV."""
