"""The agent's server: says hello, then answers requests, one a line, until its input ends."""
