"""Carries out a page of documentation as a reader would who copies its commands. For root, in namespaces of its own.

    python3 howto.py PAGE SOVIA FOLDER    PAGE is a Markdown file, SOVIA the program to try, FOLDER an empty one to work in

Each block ```sh is typed into a shell, in the order of the page. A block ```sh on=NAME goes to the shell of the host of that name.
Hosts have network and mount namespaces of their own. A network 10.0.0.0/24 joins two of them, the first one as 10.0.0.1. A block
```LANGUAGE file=NAME is written to that file. A block ```text shows lines of what the commands before it print. Each line has to
come, whatever its numbers are; ... stands for anything. But "sovia: accelerated: 0" does not stand for more than 0. The commands of
a block ```sh again look at something that changes: they are typed again until all lines have come. A block ```sh needs=PROGRAM is
skipped, together with the text that it prints, if that program is not here. Another program carries out a block ```sh by=PROGRAM.
Blocks of other kinds are for readers alone. PROGRAM and … are programs that end at once.

It prints "ok" at the end, or "SKIPPED: reason" and then "ok".
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

FENCE = re.compile(r"^```(.*)$")
# Patterns in a command's output with numbers that differ from run to run.
NUMBER = re.compile(r"\d[\d.,]*(?:[kMG]\b|[µnm]?s\b)?")
# Debian keeps PostgreSQL's programs in a separate folder.
PATH = ":".join([os.environ["PATH"], "/usr/sbin", "/sbin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"))])
# A function in place of sudo, because the page's commands run as root.
SHIMS = """
sudo() {
    case $1 in
        -u) local user=$2; shift 2; setpriv --reuid "$user" --regid "$user" --init-groups env HOME=/tmp "$@" ;;
        *) "$@" ;;
    esac
}
"""


class Block:
    def __init__(self, info, text):
        words = info.split()
        self.language = words[0] if words else ""
        self.options = dict(word.partition("=")[::2] for word in words[1:])
        self.text = text


def blocks(page):
    found, lines, info = [], None, ""
    for line in page.splitlines():
        fence = FENCE.match(line)
        if fence and lines is None:
            lines, info = [], fence.group(1)
        elif fence:
            found.append(Block(info, "\n".join(lines) + "\n"))
            lines = None
        elif lines is not None:
            lines.append(line)
    assert lines is None, "a block has no end"
    return found


class Host:
    """A shell in namespaces of its own."""

    def __init__(self, name, number, sovia, folder):
        self.name, self.folder = name, os.path.join(folder, name)
        os.mkdir(self.folder)
        self.output, self.changed = "", threading.Condition()
        # Everything ends with this program.
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "--norc"]
        self.shell = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=self.folder, start_new_session=True,
            env=dict(os.environ, PATH=PATH),
        )
        threading.Thread(target=self.listen, daemon=True).start()
        self.type("set -o pipefail\nip link set lo up\nmount -t tmpfs none /run\nmkdir -p -m 755 /run/sovia\n" + SHIMS)
        # Overlays discard the page's changes with the namespace.
        upper = os.path.join(self.folder, "upper")
        for place in ("etc", "usr/lib", "var/lib", "var/log"):
            layer = f"{upper}/{place}"
            self.type(f"mkdir -p {layer} {layer}-work && mount -t overlay none /{place} "
                      f"-o lowerdir=/{place},upperdir={layer},workdir={layer}-work\n")
        # Copies that every user may read.
        built = os.path.dirname(sovia)
        self.type(f"mkdir -p /usr/lib/sovia && cp {built}/libsovia_preload.so /usr/lib/sovia/\n"
                  f"mkdir -m 755 /run/bin && cp {built}/sovia {built}/sovia-tools {built}/libsovia_preload.so /run/bin/\n"
                  "PATH=/run/bin:$PATH\nfor name in PROGRAM …; do ln -s /bin/true /run/bin/$name; done\n"
                  "mkdir -p work/target && cd work && ln -s /run/bin target/release\n")
        self.address = f"10.0.0.{number}"

    def listen(self):
        for line in self.shell.stdout:
            with self.changed:
                self.output += line
                self.changed.notify_all()
        with self.changed:
            self.shell.wait()
            self.changed.notify_all()

    def type(self, text):
        """Types lines, and waits until the last command has ended. Returns what has been printed meanwhile."""
        marks = [f"@end-{os.urandom(8).hex()}", "@status-"]
        before = len(self.output)
        # Each line is a command, except for lines that a shell reads as one command.
        self.shell.stdin.write(f"trap 'echo {marks[1]}$?' ERR\n{text}trap - ERR\necho {marks[0]}\n")
        self.shell.stdin.flush()
        with self.changed:
            while marks[0] not in self.output[before:] and self.shell.poll() is None:
                self.changed.wait()
        said = self.output[before:]
        assert marks[0] in said, f"{self.name}: the shell has ended:\n{said}"
        assert marks[1] not in said, f"{self.name}: a command has failed:\n{text}\n{said}"
        return said.split(marks[0])[0]

    def end(self):
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.wait()


def join(one, two):
    """A network between two hosts."""
    pids = [subprocess.run(["pgrep", "-P", str(host.shell.pid)], capture_output=True, text=True, check=True).stdout.split()[0]
            for host in (one, two)]
    enter = [["nsenter", "--net", "--target", pid] for pid in pids]
    subprocess.run([*enter[0], "ip", "link", "add", "net", "type", "veth", "peer", "name", "net", "netns", pids[1]], check=True)
    for host, words in zip((one, two), enter):
        subprocess.run([*words, "ip", "address", "add", f"{host.address}/24", "dev", "net"], check=True)
        subprocess.run([*words, "ip", "link", "set", "net", "up"], check=True)


def shape(line):
    # A page that shows accelerated connections does not mean none.
    line = re.sub("^(sovia: accelerated:) 0 ", r"\1 none ", line)
    return NUMBER.sub("0", " ".join(line.split()))


def has_come(expected, printed):
    parts = [re.escape(shape(part)) for part in expected.split("...")]
    pattern = re.compile("^" + ".*".join(part.replace("\\ ", " ") for part in parts) + "$")
    return any(pattern.match(shape(line)) for line in printed.splitlines())


def shown(block):
    """Returns the lines that a block says are printed."""
    return [line for line in block.text.splitlines() if line.strip() and block.language == "text"]


def missing(page):
    """Programs that the page's first lines say it needs, and that are not here."""
    needed = re.search(r"<!-- needs: (.*) -->", page)
    return [name for name in needed.group(1).split() if shutil.which(name, path=PATH) is None] if needed else []


def carry_out(page, sovia, folder):
    text = open(page).read()
    lacks = missing(text)
    if lacks:
        print(f"SKIPPED: {os.path.basename(page)}: {', '.join(lacks)} is not installed")
        return
    all_blocks = [block for block in blocks(text) if "by" not in block.options]
    shells = [block for block in all_blocks if block.language == "sh"]
    assert shells, "the page has no commands"
    names = list(dict.fromkeys(block.options.get("on", "one") for block in shells))
    hosts = {}
    try:
        for number, name in enumerate(names, 1):
            hosts[name] = Host(name, number, sovia, folder)
        if len(hosts) == 2:
            join(*hosts.values())
        # `since` is the length of the host's output before the commands whose output the next text shows.
        printed, skips, since, is_after_text = "", False, 0, True
        for block, following in zip(all_blocks, [*all_blocks[1:], Block("", "")]):
            if block.language == "sh":
                lacking = block.options.get("needs")
                skips = lacking is not None and shutil.which(lacking, path=PATH) is None
                if skips:
                    print(f"SKIPPED: {os.path.basename(page)}: {lacking} is not installed")
            if skips and block.language in ("sh", "text"):
                continue
            host = hosts[block.options.get("on", names[0])]
            if "file" in block.options:
                path = os.path.join(host.folder, "work", block.options["file"])
                with open(path, "w") as file:
                    file.write(block.text)
            elif block.language == "sh":
                if is_after_text:
                    since, is_after_text = len(host.output), False
                printed = host.type(block.text)
                while "again" in block.options and not all(has_come(line, printed) for line in shown(following)):
                    time.sleep(0.1)
                    printed = host.type(block.text)
                # A key printed on one host is typed on the other, as `$KEY_OF_ONE`.
                key = re.search(r"^[A-Za-z0-9+/]{43}=$", printed, re.M)
                if key:
                    for other in hosts.values():
                        other.type(f"KEY_OF_{host.name.upper()}={key.group(0)}\n")
            elif block.language == "text":
                is_after_text = True
                # A background program prints at any time; the test's watchdog limits the wait.
                for line in shown(block):
                    with host.changed:
                        while not has_come(line, printed) and not has_come(line, host.output[since:]):
                            if not host.changed.wait(20):
                                raise AssertionError(f"{line!r} has not come:\n{host.output[since:]}")
    except BaseException:
        for host in hosts.values():
            print(f"--- {host.name}:\n{host.output}")
        raise
    finally:
        for host in hosts.values():
            host.end()


def main():
    page, sovia, folder = sys.argv[1:]
    carry_out(page, sovia, folder)
    print("ok")


main()
