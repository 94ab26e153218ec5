"""Systemd deployment of SGLang model servers on GPU hosts that their admins own.

This package file runs on the hosts too (Python 3.9, standard library alone).
"""

__version__ = "0.1.0"
