"""A command's channel on an SSH connection, as the bytes of a session."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

from deployer.remote import transport as ssh
from deployer.remote.stream import Chunk, StreamEnded


class ChannelStream:
    """``deployer.remote.stream.Stream`` over a paramiko channel. ``finish`` ends the connection under it."""

    def __init__(
        self, transport: Any, channel: Any, finish: Callable[[], None], keepalive: float, silence: float | None = None
    ) -> None:
        self.silence = silence
        self._transport = transport
        self._channel = channel
        self._finish = finish
        self._closed = False
        self._watch = select.poll()
        self._watch.register(channel.fileno(), select.POLLIN)
        transport.set_keepalive(keepalive)

    def read(self, timeout: float) -> Chunk | None:
        until = time.monotonic() + timeout
        channel = self._channel
        while not self._closed:
            ended = channel.eof_received or channel.closed or not self._transport.is_active()
            if channel.recv_ready():
                return Chunk(channel.recv(65536))
            if channel.recv_stderr_ready():
                return Chunk(channel.recv_stderr(65536), error=True)
            if ended:                                # asked before: what came until then has been read
                break
            left = until - time.monotonic()
            if left <= 0 or not self._watch.poll(left * 1000):
                return None
        return Chunk(b"")

    def write(self, data: bytes, timeout: float) -> None:
        self._channel.settimeout(timeout)
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise StreamEnded(f"nothing was taken for {timeout:.0f} s") from None
        except (OSError, EOFError, ssh.load().SSHException) as error:
            raise StreamEnded(str(error) or "the connection is closed") from None

    def status(self) -> int | None:
        if not self._channel.status_event.wait(0.5):
            return None
        code: int = self._channel.exit_status
        return code if code >= 0 else None

    def why(self) -> str:
        if self._transport.is_active() or self._closed:
            return ""
        error = self._transport.saved_exception
        if error is None or isinstance(error, EOFError):
            return "the SSH connection ended"
        return f"the SSH connection ended: {getattr(error, 'strerror', None) or error}"

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._finish()


def run(transport: Any, command: str, terminal: bool, timeout: float) -> Any:
    """Opens a channel and starts ``command`` on it, without waiting for the word that it was started.

    Raises paramiko's SSHException where the server opens no channel in time.
    """
    channel = transport.open_session(timeout=timeout)
    if terminal:
        channel.get_pty(term="dumb", width=200, height=24)
    paramiko = ssh.load()
    request = paramiko.Message()
    request.add_byte(b"\x62")                        # SSH_MSG_CHANNEL_REQUEST
    request.add_int(channel.remote_chanid)
    request.add_string("exec")
    request.add_boolean(False)
    request.add_string(command)
    transport._send_user_message(request)
    return channel
