"""Starts a command as container engines and systemd's units start theirs, by the same means of the kernel.

    sandbox.py WORD... -- COMMAND...

Words are taken in the order in which systemd applies its directives, whatever their order here:

    read-only           a mount namespace whose root cannot be written to (ProtectSystem=strict, --read-only)
    hidden-proc         a /proc that shows no other user's processes (ProtectProc=invisible)
    private-users       a user namespace in which only root and the user have numbers (PrivateUsers=)
    user=N              that user and group, without others
    no-capabilities     none that could be had again (CapabilityBoundingSet=, --cap-drop all)
    no-write-execute    memory is never writable and executable (MemoryDenyWriteExecute=)
    no-new-privileges   (NoNewPrivileges=, --security-opt no-new-privileges)
    no-netlink          socket() fails with EAFNOSUPPORT for it (RestrictAddressFamilies=)
    system-service      @system-service without @privileged and @resources; any other call kills (SystemCallFilter=)
    container           calls that podman's default profile does not know, and the library makes: ENOSYS
"""

import ctypes
import errno
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 24, 38, 65
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EQUAL = 4
AF_NETLINK = 16
# System calls that seccomp.json of containers-common 0.50 denies to processes without capabilities.
UNKNOWN_TO_PODMAN = ["vmsplice", "futex_waitv", "userfaultfd", "kcmp", "io_uring_setup"]


class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def call(function, *args):
    if function(*args) != 0:
        code = ctypes.get_errno()
        sys.exit(f"sandbox: {args}: {os.strerror(code)}")


def mount(source, target, kind, flags, options=None):
    text = [word.encode() if word else None for word in (source, target, kind)]
    call(libc.mount, *text, ctypes.c_ulong(flags), options.encode() if options else None)


def mounts(words):
    call(libc.unshare, CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    if "read-only" in words:
        mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY)
    if "hidden-proc" in words:
        mount("proc", "/proc", "proc", 0, "hidepid=invisible")


def private_users(user):
    """A child that stays outside writes the maps: only it may name users beside its own."""
    ready, done = os.pipe(), os.pipe()
    mine = os.getpid()
    if os.fork() == 0:
        os.read(ready[0], 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{mine}/{name}", "w") as file:
                file.write(f"0 0 1\n{user} {user} 1\n")
        os._exit(0)
    call(libc.unshare, CLONE_NEWUSER)
    os.write(ready[1], b"x")
    if os.wait()[1] != 0:
        sys.exit("sandbox: the map of users cannot be written")
    for end in ready + done:
        os.close(end)


def filters(words):
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p

    def load(default, action, names, *comparisons):
        context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(default)))
        compared = (Comparison * len(comparisons))(*comparisons)
        for name in names:
            number = seccomp.seccomp_syscall_resolve_name(name.encode())
            # Other processors lack some of these calls.
            if number >= 0:
                args = ctypes.c_uint32(action), number, len(comparisons), compared
                call(seccomp.seccomp_rule_add_array, context, *args)
        call(seccomp.seccomp_load, context)

    if "no-netlink" in words:
        load(ALLOW, ERRNO | errno.EAFNOSUPPORT, ["socket"], Comparison(0, EQUAL, AF_NETLINK, 0))
    if "container" in words:
        load(ALLOW, ERRNO | errno.ENOSYS, UNKNOWN_TO_PODMAN)
    if "system-service" in words:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "system-service.txt")) as file:
            # Allow the calls that the filters above refuse, because KILL would override their
            # error.
            load(KILL, ALLOW, file.read().split())


def main():
    end = sys.argv.index("--")
    words, command = sys.argv[1:end], sys.argv[end + 1 :]
    user = next((int(word[5:]) for word in words if word.startswith("user=")), 0)
    unknown = [word for word in words if word not in __doc__ and not word.startswith("user=")]
    if unknown:
        sys.exit(f"sandbox: {unknown}")
    if "read-only" in words or "hidden-proc" in words:
        mounts(words)
    if "private-users" in words:
        private_users(user)
    if "no-capabilities" in words:
        with open("/proc/sys/kernel/cap_last_cap") as file:
            for capability in range(int(file.read()) + 1):
                libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if user != 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if "no-write-execute" in words and libc.prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0:
        print("sandbox: before Linux 6.3 there is no such rule for memory", file=sys.stderr)
    if "no-new-privileges" in words or user != 0:
        call(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filters(words)
    os.execvp(command[0], command)


main()
