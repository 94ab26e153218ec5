"""What agent and client say to each other. Standard library only, Python 3.9."""
