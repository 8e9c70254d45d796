"""Published results (rounds and articles) and logs of other programs, as measurements like our own."""
