"""The one handler of errors: expected ones in a few lines with an exit code, others with a trace file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from deployer import errors, exits


def guarded(act: Callable[[], Any]) -> int:
    """Runs ``act``; its integer result is the exit code (None: 0). Errors become words on stderr and a code."""
    try:
        result = act()
        return result if isinstance(result, int) else exits.OK
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return exits.USAGE
    except (KeyboardInterrupt, click.Abort):
        print("deployer: interrupted", file=sys.stderr)
        return exits.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return exits.OK
    except errors.DeployerError as error:
        show(error)
        return error.exit_code
    except Exception:
        return _fault()


def show(error: errors.DeployerError) -> None:
    """What happened, the state now, the next command: on stderr."""
    from deployer.cli.console import show_findings

    findings = getattr(error, "findings", ())
    if findings:
        show_findings(findings)
    host = f"{error.host}: " if isinstance(error, errors.HostError) else ""
    print(f"deployer: {host}{error.message}", file=sys.stderr)
    if error.state:
        print(f"  now:  {error.state}", file=sys.stderr)
    if error.hint:
        print(f"  next: {error.hint}", file=sys.stderr)


def _fault() -> int:
    """A fault of the tool's own: the trace goes to a file of the user's alone, redacted."""
    import tempfile
    import traceback

    from deployer.protocol.redact import Redactor

    text = Redactor().text(traceback.format_exc())
    with tempfile.NamedTemporaryFile("w", prefix="deployer-trace-", suffix=".txt", delete=False) as trace:
        trace.write(text)
    last = text.strip().splitlines()[-1]
    print(f"deployer: internal error: {last}", file=sys.stderr)
    print(f"  next: report it with {trace.name}", file=sys.stderr)
    return exits.FINDINGS
