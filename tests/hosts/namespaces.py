"""Hosts for tests: network namespaces connected by a bridge.

    with Hosts(3) as hosts:
        rank = hosts[1].start(["command", ...], {"BRAID_RANK": "2"})
        hosts[1].pull_cable()

A host has an address, a host name (in its UTS namespace), and a folder for TMPDIR. The bridge
connects the hosts with each other and with this process, whose address is `hosts.here`; a proxy may
listen there. At the end of the block, all processes that were started are killed, and everything
that was created is removed. Requires Linux, and either root or permission for users to create
namespaces; `why_not()` returns what is missing.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PREFIX = "brd"  # prefix of all link and namespace names; link names have at most 15 characters


def ip(*arguments):
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def enter():
    """Restarts this script with permission to create namespaces, if needed and possible."""
    if os.geteuid() == 0 or "BRAID_TEST_ENTERED" in os.environ or not shutil.which("unshare"):
        return
    probe = ["unshare", "-Urnm", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        script = 'mount -t tmpfs none /run && mkdir /run/netns && exec "$@"'
        os.execvpe("unshare", ["unshare", "-Urnm", "sh", "-c", script, "sh", sys.executable]
                   + sys.argv, dict(os.environ, BRAID_TEST_ENTERED="1"))


def why_not():
    """Returns the reason why hosts cannot be created on this machine, or None."""
    for command in ("ip", "unshare", "hostname"):
        if not shutil.which(command):
            return f"{command} is not installed"
    try:
        with Hosts(1):
            return None
    except OSError as error:
        return str(error)


class Host:
    def __init__(self, hosts, number):
        self.number = number
        self.name = f"{PREFIX}{hosts.mark}h{number}"  # name of the namespace and of the host
        self.cable = f"{PREFIX}{hosts.mark}c{number}"
        self.address = f"{hosts.network}.{number + 1}"
        self.folder = os.path.join(hosts.folder, f"host{number}")
        self.children = []
        os.mkdir(self.folder)

    def make(self, bridge):
        ip("netns", "add", self.name)
        ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", self.cable, "master", bridge, "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")

    def command(self, command):
        """Returns the command line that runs `command` on this host."""
        script = f'hostname {self.name} && exec "$@"'
        return ["ip", "netns", "exec", self.name, "unshare", "--uts", "sh", "-c", script, "sh"
                ] + command

    def start(self, command, variables=None, **options):
        """Starts a command on this host, with the host's TMPDIR, and returns its Popen."""
        environment = dict(os.environ, TMPDIR=self.folder, **(variables or {}))
        child = subprocess.Popen(self.command(command), env=environment,
                                 stdin=subprocess.DEVNULL, **options)
        self.children.append(child)
        return child

    def processes(self):
        return [int(pid) for pid in ip("netns", "pids", self.name).split()]

    def signal(self, number):
        """Sends a signal to all processes on this host."""
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self):
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """Kills processes until none is left, because processes that are still starting may enter
        the namespace later."""
        deadline = time.monotonic() + 30
        while (children := [child for child in self.children if child.poll() is None
                            ]) or self.processes():
            for child in children:
                child.kill()
            self.signal(signal.SIGKILL)
            if time.monotonic() > deadline:
                running = [child.pid for child in children] + self.processes()
                raise OSError(f"{self.name}: processes {running} cannot be killed")
            time.sleep(0.005)

    def pull_cable(self):
        ip("link", "set", self.cable, "down")

    def plug_in(self):
        ip("link", "set", self.cable, "up")

    def sockets(self):
        """Returns the lines in /proc/net about listening and connected TCP sockets."""
        found = []
        for kind in ("tcp", "tcp6"):
            text = subprocess.run(["ip", "netns", "exec", self.name, "cat", f"/proc/net/{kind}"],
                                  capture_output=True, text=True, check=True).stdout
            # State 06 is TIME_WAIT. Such a socket no longer belongs to a process.
            found += [line for line in text.splitlines()[1:] if line.split()[3] != "06"]
        return found

    def files(self):
        return [os.path.join(folder, name) for folder, folders, names in os.walk(self.folder)
                for name in folders + names]

    def remove(self):
        # The kernel would remove the link with the namespace, but only after a delay.
        ip("link", "del", self.cable)
        ip("netns", "del", self.name)


class Hosts(list):
    def __init__(self, count):
        super().__init__()
        # Tests that run concurrently need separate networks.
        self.mark = f"{os.getpid() % 46656:x}"
        self.network = f"10.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}"
        self.here = f"{self.network}.254"
        self.bridge = f"{PREFIX}{self.mark}b"
        self.folder = tempfile.mkdtemp(prefix="braid-hosts-")
        self.count = count

    def __enter__(self):
        try:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("address", "add", f"{self.here}/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            for number in range(self.count):
                self.append(Host(self, number))
                self[-1].make(self.bridge)
            self.name_hosts()
        except OSError:
            self.remove()
            raise
        return self

    def name_hosts(self):
        """Makes the hosts' names resolvable: on host NAME, `ip netns exec` replaces the files in
        /etc with those in /etc/netns/NAME."""
        text = "127.0.0.1 localhost\n" + "".join(f"{h.address} {h.name}\n" for h in self)
        for host in self:
            try:
                os.makedirs(f"/etc/netns/{host.name}", exist_ok=True)
                with open(f"/etc/netns/{host.name}/hosts", "w", encoding="ascii") as file:
                    file.write(text)
            except OSError:
                return  # hosts can then reach each other only by address

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        for host in self:
            try:
                host.kill()
                host.remove()
            except OSError:
                pass
            shutil.rmtree(f"/etc/netns/{host.name}", ignore_errors=True)
        try:
            ip("link", "del", self.bridge)
        except OSError:
            pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def left_running(self, patience=5):
        """Returns the processes and sockets that still exist after `patience` seconds."""
        deadline = time.monotonic() + patience
        while True:
            left = [f"{h.name}: process {pid}" for h in self for pid in h.processes()]
            left += [f"{h.name}: socket {line}" for h in self for line in h.sockets()]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)


def left_behind(mark):
    """Returns the namespaces, links and folders that a Hosts object with this mark has left."""
    start = PREFIX + mark
    left = [line.split()[0] for line in ip("netns", "list").splitlines() if line.startswith(start)]
    left += [name for name in os.listdir("/sys/class/net") if name.startswith(start)]
    if os.path.isdir("/etc/netns"):
        left += [name for name in os.listdir("/etc/netns") if name.startswith(start)]
    return left
