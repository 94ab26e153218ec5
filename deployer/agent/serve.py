"""The agent's server: says hello, then answers requests, one a line, until its input ends.

The hello is written before anything slow is imported, so that the client's first request travels meanwhile.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional

from deployer.agent import home

OPERATIONS: Dict[str, str] = {
    "ping": "deployer.agent.serve:ping",
    "gpus": "deployer.agent.clean.operations:gpus",
    "clean": "deployer.agent.clean.operations:clean",
    "facts": "deployer.agent.transact.survey:facts",
    "sources": "deployer.agent.facts.sources:sources",
    "examine": "deployer.agent.transact.examine:examine",
    "stage": "deployer.agent.transact.operations:stage",
    "stage-copy": "deployer.agent.transact.operations:stage_copy",
    "transact": "deployer.agent.transact.operations:transact",
    "follow": "deployer.agent.transact.operations:follow",
    "abort": "deployer.agent.transact.operations:abort",
    "transaction": "deployer.agent.transact.operations:transaction",
    "history": "deployer.agent.transact.operations:history",
    "status": "deployer.agent.transact.status:status",
    "logs": "deployer.agent.transact.journal:logs",
    "verify": "deployer.agent.verify.operation:verify",
}
"""Operation -> "module:function", imported at its first request."""

STOP = "stop"
"""Not an operation: ends the one that is running, which is then answered with the error ``stopped``."""

BEAT = "beat"
BEAT_SECONDS = 5.0
"""A running operation that has nothing to tell sends ``beat``, so that silence means that the agent is gone."""

GRACE_SECONDS = 2.0
"""How long an operation may go on after the end of input, while its output is still read."""


class Stopped(BaseException):
    """The running operation is asked to end: no ``except Exception`` of an operation's may swallow it."""


def ping(data: Dict[str, Any], emit: Callable[..., None]) -> Dict[str, Any]:
    """Answers with what it was given, and the host's clock (epoch seconds)."""
    return {"echo": data, "at": time.time()}


def main(argv: List[str]) -> int:
    """Serves standard input and output. What is printed by mistake goes to stderr; children inherit neither."""
    home.hold()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.chdir("/")
    os.umask(0o022)
    return Server(source, sink).run()


class Server:
    """One client over two descriptors. Operations run in the main thread, one at a time; a second thread listens."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._writing = threading.Lock()
        self._written = time.monotonic()
        self._lines: Deque[bytes] = deque()
        self._news = threading.Condition()
        self._ended = False
        self._busy = False
        self._midline = False
        self._pending = False
        self._unwinding = False
        self._seq = 0

    def run(self) -> int:
        """Until the input ends or nobody reads any more."""
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._interrupted)
        try:
            self._hello()
            threading.Thread(target=self._listen, daemon=True).start()
            while True:
                line = self._next()
                if line is None:
                    return 0
                self._answer(line)
        except (BrokenPipeError, ConnectionError):
            return 0

    # -- what is written

    def _hello(self) -> None:
        """``deployer.protocol.message.Hello`` by hand: its import is the slow part of the start."""
        host = "".join(c for c in os.uname().nodename if c.isalnum() or c in "-._")
        python = ".".join(str(part) for part in sys.version_info[:3])
        self._write('{{"v":1,"hash":"{}","python":"{}","uid":{},"pid":{},"host":"{}"}}\n'.format(
            home.code_hash(), python, os.geteuid(), os.getpid(), host).encode("ascii", "replace"))

    def _event(self, event: str, data: Dict[str, Any], seq: Optional[int] = None, at: Optional[float] = None) -> None:
        """What operations get as ``emit``. ``seq`` and ``at`` only for events that were numbered elsewhere."""
        from deployer.protocol.message import Event, encode

        self._seq += 1
        number = self._seq if seq is None else seq
        self._write(encode(Event(event, data, number, time.time() if at is None else at)))

    def _write(self, line: bytes) -> None:
        """One whole line: a stop that comes meanwhile waits for its end."""
        own = threading.current_thread() is threading.main_thread()
        self._midline = self._midline or own
        try:
            with self._writing:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._sink, rest):]
                self._written = time.monotonic()
        except OSError:
            self._unwinding = self._unwinding or own
            raise
        finally:
            if own:
                self._midline = False
        if own and self._pending:
            self._pending = False
            self._unwind()

    # -- what is answered

    def _answer(self, line: bytes) -> None:
        from deployer.agent.door import Refusal
        from deployer.protocol.codec import DecodeError
        from deployer.protocol.message import ERROR, REPLY, VersionError, decode_request

        self._seq = 0
        self._unwinding = False
        try:
            self._busy = True
            try:
                request = decode_request(line)
                reply = self._operation(request.op)(request.data, self._event)
            except SystemExit as error:
                raise RuntimeError("the operation called exit({!r})".format(error.code)) from error
            finally:
                self._busy = False
            self._event(REPLY, reply or {})
        except VersionError as error:
            self._event(ERROR, {"code": "protocol-version", "message": str(error)})
        except DecodeError as error:
            self._event(ERROR, {"code": "bad-request", "message": str(error)})
        except Refusal as error:
            self._event(ERROR, dict(error.data, code=error.code, message=error.message))
        except Stopped:
            if self._ended:
                raise SystemExit(0) from None
            self._event(ERROR, {"code": "stopped", "message": "stopped at the client's request"})
        except (BrokenPipeError, ConnectionError):
            raise SystemExit(0) from None
        except Exception as error:
            self._event(ERROR, _fault(error))

    def _operation(self, name: str) -> Callable[..., Dict[str, Any]]:
        from deployer.agent.door import Refusal

        if name not in OPERATIONS:
            raise Refusal("unknown-operation", "this agent has no operation {!r}".format(name))
        import importlib

        module, _, function = OPERATIONS[name].partition(":")
        found: Callable[..., Dict[str, Any]] = getattr(importlib.import_module(module), function)
        return found

    # -- what is heard

    def _next(self) -> Optional[bytes]:
        with self._news:
            while not self._lines:
                if self._ended:
                    return None
                self._news.wait()
            return self._lines.popleft()

    def _listen(self) -> None:
        """Reads requests; meanwhile sends beats and notices that nobody reads any more."""
        watch = select.poll()
        watch.register(self._source, select.POLLIN)
        watch.register(self._sink, 0)                # only errors: the reader has gone
        rest: List[bytes] = []
        while True:
            ready = dict(watch.poll(BEAT_SECONDS * 1000))
            if self._sink in ready:
                break
            if self._source not in ready:
                self._beat()
                continue
            try:
                chunk = os.read(self._source, 65536)
            except OSError:                          # a terminal whose other side has gone
                chunk = b""
            if not chunk:
                self._end()
                watch.unregister(self._source)
                watch.poll(GRACE_SECONDS * 1000)
                break
            rest.append(chunk)
            if b"\n" in chunk:                       # a long line is joined once, not with each of its pieces
                lines = b"".join(rest).split(b"\n")
                rest = [lines.pop()]
                for line in lines:
                    self._take(line)
        self._end()
        if self._busy:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(10)
            os._exit(0)                              # an operation that cannot be ended must not outlive its client

    def _take(self, line: bytes) -> None:
        if b'"stop"' in line and self._stops(line):
            if self._busy:
                os.kill(os.getpid(), signal.SIGUSR1)
        elif line.strip():
            with self._news:
                self._lines.append(line)
                self._news.notify()

    def _stops(self, line: bytes) -> bool:
        from deployer.protocol.codec import DecodeError
        from deployer.protocol.message import decode_request

        try:
            return decode_request(line).op == STOP
        except DecodeError:
            return False

    def _beat(self) -> None:
        if self._busy and time.monotonic() - self._written >= BEAT_SECONDS:
            try:
                self._write(b'{"event":"beat","v":1}\n')
            except OSError:
                pass

    def _end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify()

    def _interrupted(self, number: int, frame: Any) -> None:
        """A stop, the client's going, or a signal from outside: unwinds the operation, so that it can tidy up."""
        self._ended = self._ended or number != signal.SIGUSR1
        if self._midline:
            self._pending = True
        elif self._busy:
            self._unwind()
        elif number != signal.SIGUSR1:
            raise SystemExit(0)

    def _unwind(self) -> None:
        """Once only: what the operation tidies up on its way out is not interrupted again."""
        if self._busy and not self._unwinding:
            self._unwinding = True
            raise Stopped


def _fault(error: Exception) -> Dict[str, Any]:
    """An error of the agent's own: the end of the trace, through the redactor."""
    import traceback

    from deployer.protocol.redact import Redactor

    redact = Redactor().text
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "code": "agent-fault",
        "message": redact("{}: {}".format(type(error).__name__, error)),
        "trace": redact("\n".join(trace.splitlines()[-12:])),
    }
