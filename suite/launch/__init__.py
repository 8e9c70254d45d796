"""Starting the processes of a run: what differs between frameworks, one file each, and none of it imports a framework."""
