"""A stand-in for SGLang's server: a test tool that starts, logs, answers, fails and stops as a given release does.

It loads no model. What it does beyond a plain good start is told it by a behaviour file before the start and through a
control socket while it runs, so that no test has to sleep. Standard library only; it runs on the test hosts.
"""
