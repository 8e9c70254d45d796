"""All-reduces of many sizes, timed: what a link gives to the sum of gradients. Nothing is trained."""
