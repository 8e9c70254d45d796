"""Read logs of any program into typed records, and find logs below folders."""
