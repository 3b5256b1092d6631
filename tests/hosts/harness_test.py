#!/usr/bin/env python3
"""Are the hosts of tests like hosts, and is nothing left of them? Skipped with status 77."""
import os
import signal
import subprocess
import sys
import time

import name_spaces
from name_spaces import Hosts, left_behind
from tcp_proxy import TcpProxy

PORT = 29400
# A server that answers each line with its host's name, and a client that asks once.
SERVER = f"""
import socket, threading
def serve(c):
    for line in c.makefile():
        c.sendall((socket.gethostname() + " " + line).encode())
server = socket.create_server(("", {PORT}))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
CLIENT = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3]))
s.settimeout(float(sys.argv[3]))
s.sendall((socket.gethostname() + "\\n").encode())
answer = s.makefile().readline()
print(answer.strip())
sys.exit(0 if answer else 1)
"""


def serve_on(host):
    server = host.start([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    return server


def ask(host, address, port=PORT, seconds=20.0):
    """The answer, or None."""
    client = host.start([sys.executable, "-c", CLIENT, address, str(port), str(seconds)],
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    answer = client.communicate(timeout=60)[0].strip()
    return answer if client.returncode == 0 else None


def test_hosts_differ(hosts):
    assert len({host.name for host in hosts} | {os.uname().nodename}) == len(hosts) + 1
    serve_on(hosts[0])
    for host in hosts[1:]:
        assert ask(host, hosts[0].address) == f"{hosts[0].name} {host.name}"
        assert ask(host, "127.0.0.1") is None, "a loopback interface is a host's own"
    with_name = ask(hosts[1], hosts[0].name)
    assert with_name or not os.access("/etc", os.W_OK), "expected hosts to know their names"
    told = hosts[1].start(["sh", "-c", "echo $TMPDIR"], stdout=subprocess.PIPE, text=True)
    assert told.communicate()[0].strip() == hosts[1].folder


def test_cable(hosts):
    serve_on(hosts[0])
    hosts[1].pull_cable()
    assert ask(hosts[1], hosts[0].address, seconds=0.5) is None
    assert ask(hosts[2], hosts[0].address), "the others' cables are plugged in"
    hosts[1].plug_in()
    assert ask(hosts[1], hosts[0].address)


def test_whole_host(hosts):
    server = serve_on(hosts[0])
    hosts[0].stop()
    assert ask(hosts[1], hosts[0].address, seconds=0.5) is None, "it is stopped"
    hosts[0].go_on()
    assert ask(hosts[1], hosts[0].address)
    hosts[0].kill()
    assert server.returncode == -signal.SIGKILL and hosts[0].processes() == []
    assert ask(hosts[1], hosts[0].address, seconds=5) is None


def test_proxy(hosts):
    serve_on(hosts[0])
    with TcpProxy((hosts.here, 0), (hosts[0].address, PORT)) as proxy:
        assert ask(hosts[1], *proxy.address) == f"{hosts[0].name} {hosts[1].name}"
        assert proxy.bytes_passed > 0 and proxy.connections == 1
        proxy.delay = 0.5
        start = time.monotonic()
        assert ask(hosts[1], *proxy.address)
        assert time.monotonic() - start >= 1.0, "expected half a second there and back"
        proxy.delay, proxy.holds = 0.0, True
        assert ask(hosts[1], *proxy.address, seconds=0.5) is None
        proxy.holds, proxy.swallows = False, True
        assert ask(hosts[1], *proxy.address, seconds=0.5) is None
        proxy.swallows = False
        assert ask(hosts[1], *proxy.address)


def test_sees_what_is_left(hosts):
    serve_on(hosts[2])
    with open(os.path.join(hosts[1].folder, "file"), "w", encoding="ascii"):
        pass
    left = hosts.left_running(patience=0)
    assert any("process" in each for each in left) and any("socket" in each for each in left)
    assert hosts[1].files() == [os.path.join(hosts[1].folder, "file")]
    hosts[2].kill()
    assert hosts.left_running() == []


def main():
    name_spaces.enter()
    reason = name_spaces.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        with Hosts(3) as hosts:
            test(hosts)
        assert left_behind(hosts.mark) == [], left_behind(hosts.mark)
        assert not os.path.exists(hosts.folder)
        print(name, "passed", flush=True)


main()
