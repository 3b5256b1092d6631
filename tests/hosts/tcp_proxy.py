"""A proxy between hosts that delays, holds or drops their traffic.

The proxy is used because the kernel may lack netem. It cannot lose packets, but it can drop all
further bytes (`swallows`), forward nothing while connections remain open (`holds`, which simulates
a partition), or wait before it forwards bytes (`delay`, in seconds).
"""
import selectors
import socket
import threading
import time


class TcpProxy:
    def __init__(self, listen, target):
        """Both arguments are (address, port); port 0 means any free port."""
        self.delay, self.holds, self.swallows = 0.0, False, False
        self._target, self._pairs, self._over = target, [], False
        self._server = socket.create_server(listen)
        self._server.setblocking(False)
        self.address = self._server.getsockname()[:2]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._over = True
        self._thread.join()
        for pair in self._pairs:
            for end in pair["ends"]:
                end.close()
        self._server.close()

    def _accept(self):
        try:
            near, _ = self._server.accept()
        except BlockingIOError:
            return
        try:
            far = socket.create_connection(self._target, timeout=2)
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pairs.append({"ends": (near, far), "waiting": ([], []), "ended": [False, False]})

    def _read(self, pair, side):
        """Queues bytes with the time at which to forward them; None marks the end of the data."""
        try:
            data = pair["ends"][side].recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        pair["ended"][side] = not data
        if not data or not self.swallows:
            pair["waiting"][side].append([time.monotonic() + self.delay, data or None])

    def _pass_on(self, pair, side):
        waiting, other = pair["waiting"][side], pair["ends"][1 - side]
        while waiting and waiting[0][0] <= time.monotonic():
            data = waiting[0][1]
            try:
                if data is None:
                    other.shutdown(socket.SHUT_WR)
                    sent = 0
                else:
                    sent = other.send(data)
            except BlockingIOError:
                return
            except OSError:
                waiting.clear()
                pair["ended"] = [True, True]
                return
            if data is not None and sent < len(data):
                waiting[0][1] = data[sent:]
            else:
                waiting.pop(0)

    def _run(self):
        while not self._over:
            with selectors.DefaultSelector() as selector:
                selector.register(self._server, selectors.EVENT_READ)
                for pair in self._pairs:
                    for side in (0, 1):
                        # While the proxy holds bytes back, it does not read either, so that the
                        # sender's buffers fill up.
                        if not pair["ended"][side] and not self.holds and \
                                len(pair["waiting"][side]) < 64:
                            selector.register(pair["ends"][side], selectors.EVENT_READ,
                                              (pair, side))
                for key, _ in selector.select(0.005):
                    if key.data is None and not self.holds:
                        self._accept()
                    elif key.data is not None:
                        self._read(*key.data)
            for pair in list(self._pairs):
                if not self.holds:
                    self._pass_on(pair, 0)
                    self._pass_on(pair, 1)
                if all(pair["ended"]) and not any(pair["waiting"]):
                    for end in pair["ends"]:
                        end.close()
                    self._pairs.remove(pair)
