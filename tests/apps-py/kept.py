"""Connections that packet filters or `sovia off` keep on TCP for a while. For root, in namespaces of its own.

    python3 kept.py drive CASE SOVIA FOLDER    changes what keeps a connection, and checks its path after each change
    python3 kept.py answer PORT                echoes what one connection brings, by epoll
    python3 kept.py ask PORT                   exchanges messages for each line of its input, and prints the path

The driver ends with "ok".
"""

import ctypes
import os
import select
import socket
import struct
import subprocess
import sys

from common import acknowledged

PORT = 7531
# Seconds of a wait for an event that must not come.
PATIENCE = 1.0
ROUNDS = 20


def answer(port):
    listener = socket.create_server(("127.0.0.1", port))
    epoll = select.epoll()
    connection, _ = listener.accept()
    connection.setblocking(False)
    epoll.register(connection, select.EPOLLIN | select.EPOLLET)
    while True:
        epoll.poll()
        try:
            while data := connection.recv(4096):
                connection.sendall(data)
            return
        except BlockingIOError:
            pass


def ask(port):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(PATIENCE)
    awaited = b""
    for number, _ in enumerate(sys.stdin):
        before = acknowledged(connection)
        path = "vi"
        try:
            for i in range(ROUNDS):
                message = b"%d of %d;" % (i, number)
                # Bytes of an earlier line may come first.
                awaited += message
                connection.sendall(message)
                while awaited:
                    part = connection.recv(len(awaited))
                    assert part and awaited.startswith(part), (part, awaited)
                    awaited = awaited[len(part):]
            if acknowledged(connection) != before:
                path = "tcp"
        except TimeoutError:
            path = "stopped"
        print(path, flush=True)


class Scene:
    def __init__(self, sovia, folder):
        self.sovia, self.socket = sovia, os.path.join(folder, "filters")
        self.environment = dict(os.environ, SOVIA_FILTERS=self.socket)
        self.agent = self.server = self.client = None

    def stop(self):
        for process in filter(None, [self.agent, self.server, self.client]):
            process.kill()
            process.wait()

    def start_agent(self):
        command = [self.sovia, "agent", "--filters", "--socket", self.socket]
        self.agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.agent.stdout.readline()
        assert line.startswith("the agent is ready"), line

    def stop_agent(self):
        self.agent.kill()
        self.agent.wait()

    def start(self, *words, rules, **pipes):
        command = [self.sovia, "run", *rules, "--", sys.executable, __file__, *words]
        return subprocess.Popen(command, env=self.environment, text=True, **pipes)

    def converse(self, rules_of_client=("--respect-filters",), rules_of_server=("--respect-filters",)):
        self.server = self.start("answer", str(PORT), rules=rules_of_server)
        while not listens():
            assert self.server.poll() is None
        pipe = subprocess.PIPE
        self.client = self.start("ask", str(PORT), rules=rules_of_client, stdin=pipe, stdout=pipe)

    def talk(self):
        self.client.stdin.write("talk\n")
        self.client.stdin.flush()
        return self.client.stdout.readline().strip()

    def expect(self, path, why):
        """Talks until the connection is where it must come to be; a test's watchdog ends this."""
        seen = []
        while not seen or seen[-1] != path:
            seen.append(self.talk())
            assert seen[-1] in ("vi", "tcp", "stopped"), (why, seen[-4:])

    def expect_still(self, path, why):
        for _ in range(10):
            seen = self.talk()
            assert seen == path, (why, seen)

    def switch(self, command, **options):
        """Runs `sovia off` or `sovia on`. Returns its exit status, and what it prints."""
        run = subprocess.run([self.sovia, command], capture_output=True, text=True, **options)
        return run.returncode, run.stdout + run.stderr

    def end(self):
        self.client.stdin.close()
        assert self.client.wait() == 0 and self.server.wait() == 0


def listens():
    with open("/proc/self/net/tcp") as table:
        # State of the listener: connections of the last conversation may still be closing.
        return any(f":{PORT:04X} " in line and line.split()[3] == "0A" for line in table)


def nft(text):
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


def chain(policy, *rules):
    rules = "\n".join(rules)
    head = f"type filter hook input priority 0; policy {policy};"
    return f"flush ruleset\ntable inet t {{\nchain i {{\n{head}\n{rules}\n}}\n}}"


def drops_for_a_while(scene, meanwhile=lambda: None):
    nft(chain("accept", f"tcp dport {PORT} drop"))
    scene.expect("stopped", "a rule drops the packets")
    meanwhile()
    nft("flush ruleset")
    scene.expect("vi", "the rule has gone")


def changes(scene):
    scene.converse()
    scene.expect_still("tcp", "no agent reports what passes")
    scene.start_agent()
    scene.expect("vi", "nothing is filtered")
    drops_for_a_while(scene, lambda: scene.expect_still("stopped", "the rule is still there"))
    nft(chain("drop", "iif lo accept"))
    scene.expect_still("vi", "packets over lo pass")
    nft(chain("accept", f"tcp dport {PORT + 1} drop"))
    scene.expect_still("vi", "the rule is for another port")
    nft(chain("accept", f"tcp sport {PORT} limit rate over 1/hour burst 5 packets drop"))
    scene.expect("stopped", "a limit is exceeded")
    nft("flush ruleset")
    scene.expect("vi", "the limit has gone")
    scene.stop_agent()
    scene.expect("tcp", "the agent has gone")
    scene.expect_still("tcp", "no agent is here")
    scene.start_agent()
    scene.expect("vi", "an agent is here again")
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "pfifo"], check=True)
    scene.expect("tcp", "traffic control has a queue at lo")
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)
    scene.expect("vi", "the queue has gone")
    scene.end()


def one_end(scene):
    """The rule of one end is enough."""
    scene.start_agent()
    scene.converse(rules_of_client=())
    scene.expect("vi", "nothing is filtered")
    drops_for_a_while(scene)
    scene.end()


def attach_program(group):
    """Has the kernel run a BPF program, which lets everything pass, over each packet to a control group. Until detached."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]

    def bpf(command, attributes):
        attributes = ctypes.create_string_buffer(attributes, 128)
        result = libc.syscall(number, command, attributes, 128)
        if result < 0:
            raise OSError(ctypes.get_errno(), "bpf")
        return result

    # r0 = 1; exit
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    cgroup_skb, ingress, load, attach, detach = 8, 0, 5, 8, 9
    addresses = ctypes.addressof(code), ctypes.addressof(licence)
    program = bpf(load, struct.pack("<IIQQ", cgroup_skb, 2, *addresses))
    folder = os.open(group, os.O_RDONLY)
    bpf(attach, struct.pack("<IIII", folder, program, ingress, 0))
    return lambda: bpf(detach, struct.pack("<IIII", folder, program, ingress, 0))


def control_group(scene):
    roots = [root for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
             if os.path.exists(f"{root}/cgroup.controllers")]
    group = f"{roots[0]}/sovia-test-{os.getpid()}" if roots else None
    try:
        os.mkdir(group)
    except (OSError, TypeError) as error:
        print(f"SKIPPED: no control group can be made: {error}")
        return
    try:
        with open(f"{group}/cgroup.procs", "w") as processes:
            processes.write("0")
        scene.start_agent()
        scene.converse()
        scene.expect("vi", "the group has no program")
        detach = attach_program(group)
        scene.expect("tcp", "a program sees the group's packets")
        detach()
        scene.expect("vi", "the program has gone")
        scene.end()
    finally:
        with open(f"{roots[0]}/cgroup.procs", "w") as processes:
            processes.write("0")
        scene.stop()
        os.rmdir(group)


def off(scene):
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    scene.converse((), ())
    scene.expect("vi", "nothing keeps it")
    for _ in range(3):
        said = scene.switch("off")
        assert said == (0, "off for all users: no connection is accelerated\n"), said
        scene.expect_still("tcp", "Sovia is off")
        said = scene.switch("on")
        assert said == (0, "on for all users\n"), said
        scene.expect("vi", "Sovia is on again")
    scene.switch("off")
    scene.end()
    scene.converse((), ())
    scene.expect_still("tcp", "Sovia is off from the beginning")
    scene.switch("on")
    scene.expect("vi", "Sovia is on")
    scene.end()


def off_for_one(scene):
    """A user without rights switches its own programs off, and root all."""
    user = 65534
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    os.makedirs(f"/run/user/{user}")
    os.chown(f"/run/user/{user}", user, user)
    scene.converse((), ())
    scene.expect("vi", "nothing keeps it")
    status, said = scene.switch("off", user=user, group=user)
    assert status == 0 and said.startswith("off for your own programs"), said
    scene.expect_still("vi", "Sovia is off for another user")
    status, _ = scene.switch("off")
    assert status == 0
    status, said = scene.switch("on", user=user, group=user)
    assert status == 1 and "root has switched Sovia off for all users" in said, said
    scene.expect_still("tcp", "Sovia is off for all")
    scene.end()


def drive(case, sovia, folder):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    scene = Scene(sovia, folder)
    try:
        globals()[case](scene)
    finally:
        scene.stop()
    print("ok")


def main():
    match sys.argv[1:]:
        case "answer", port:
            answer(int(port))
        case "ask", port:
            ask(int(port))
        case "drive", name, sovia, folder:
            drive(name, sovia, folder)


main()
