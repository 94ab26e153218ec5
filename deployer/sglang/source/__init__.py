"""Reads the server arguments of a release from its source texts: as syntax trees, never imported or run."""
