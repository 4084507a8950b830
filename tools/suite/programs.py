"""Builds test programs by cargo and lists the tests in them."""

import json
import os
import subprocess
from dataclasses import dataclass, field


@dataclass
class Program:
    """A test program that cargo has built."""

    package: str
    name: str  # "lib", "all", "conformance", "bin sovia"
    path: str
    folder: str  # of its package

    def __str__(self):
        return f"{self.package}/{self.name}"


@dataclass(order=True)
class Test:
    """A test of a program, or the whole program where its tests share what they build."""

    program: Program = field(compare=False)
    name: str
    whole: bool = field(default=False, compare=False)

    def __str__(self):
        return f"{self.program}/{self.name}"


class BuildFailed(Exception):
    """A part cannot run; what cargo says has been shown."""


def build(selection, environment):
    """Builds what `cargo test SELECTION` would run and returns its programs."""
    command = ["cargo", "test", *selection, "--no-run", "--message-format=json-render-diagnostics"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    programs = []
    for line in process.stdout:
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        # An example has a program too; cargo runs none.
        if message.get("executable") and message["profile"]["test"]:
            programs.append(_program(message))
    if process.wait() != 0:
        raise BuildFailed(f"cannot build: {' '.join(command)}")
    return programs


def build_examples(selection, environment):
    """Builds examples as programs."""
    command = ["cargo", "build", *selection]
    if subprocess.run(command, env=environment, check=False).returncode != 0:
        raise BuildFailed(f"cannot build: {' '.join(command)}")


def _program(message):
    kind, name = message["target"]["kind"][0], message["target"]["name"]
    if kind == "bin":
        name = f"bin {name}"
    elif kind != "test":
        name = "lib"
    folder = os.path.dirname(message["manifest_path"])
    # Ends in #NAME@VERSION, or in FOLDER#VERSION where the package is named as its folder is.
    before, _, after = message["package_id"].rpartition("#")
    package = after.split("@")[0] if "@" in after else os.path.basename(before)
    return Program(package, name, message["executable"], folder)


def tests(program, environment, ignored):
    """Returns the names of a program's tests: those that run by themselves, or the ignored ones."""
    command = [program.path, "--list", "--format", "terse", *(["--ignored"] if ignored else [])]
    done = subprocess.run(
        command, cwd=program.folder, env=environment, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    if done.returncode != 0:
        raise BuildFailed(f"{program}: cannot list its tests: {done.stderr.strip()[-400:]}")
    return [line[: -len(": test")] for line in done.stdout.splitlines() if line.endswith(": test")]
