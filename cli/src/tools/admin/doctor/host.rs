//! Checks the host, the user and the limits.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use sovia_cli::{library, program};
use sovia_control::env as names;
use sovia_sys::{diag, memory_limits};

use super::Finding;

/// The checks, in the order of the output.
pub(super) const LOOKS: &[fn() -> Finding] = &[
    kernel,
    libc_version,
    the_library,
    descriptors,
    addresses,
    processors,
    memory,
    users,
    yama,
    filter,
    proc,
    loopback,
    sockets,
    agent,
    filters,
    super::system::rules,
    super::system::off_switch,
];

/// A program of this system, whose dynamic linker stands for that of other programs.
const SHELL: &str = "/bin/sh";
/// Address space that the segments of a process may need, in bytes.
const ADDRESSES: u64 = 20 << 30;

fn kernel() -> Finding {
    let about = nix::sys::utsname::uname();
    let release = about.as_ref().map(|about| about.release().to_string_lossy().into_owned());
    let release = release.unwrap_or_default();
    // The membarrier command with which the library registers a process.
    const PRIVATE_EXPEDITED: i64 = 1 << 3;
    // SAFETY: a membarrier query changes nothing.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) };
    if commands < 0 || commands & PRIVATE_EXPEDITED == 0 {
        return Finding::note(
            "kernel",
            format!("{release}, without membarrier"),
            "without membarrier, each message costs a memory fence: use a kernel and a seccomp filter that allow membarrier",
        );
    }
    Finding::good("kernel", release)
}

fn libc_version() -> Finding {
    // SAFETY: gnu_get_libc_version returns a constant C string.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Finding::good("libc", format!("glibc {}", version.to_string_lossy()))
}

fn the_library() -> Finding {
    let refusal =
        |library| program::refusal(program::inspect(Path::new(SHELL)).linker.as_deref()?, library);
    match library::find() {
        Ok(path) => match refusal(&path) {
            Some(why) => Finding::bad(
                "library",
                format!("cannot load {}: {why}", path.display()),
                "glibc 2.34 or later is needed (Debian 12, Ubuntu 22.04, RHEL 9)",
            ),
            None => Finding::good("library", path.display().to_string()),
        },
        Err(error) => {
            Finding::bad("library", format!("{error:#}"), "install Sovia, or set SOVIA_PRELOAD")
        }
    }
}

fn descriptors() -> Finding {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Finding::note(
            "descriptors",
            "cannot read the limit",
            "1024 or more are needed (ulimit -n)",
        );
    };
    let found = format!("{soft} per process");
    let raise = match hard {
        ..1024 => format!("raise the hard limit of {hard} as root"),
        _ => format!("ulimit -n {hard}, or LimitNOFILE={hard} in a unit"),
    };
    match soft {
        ..1024 => Finding::bad("descriptors", found, format!("1024 are needed: {raise}")),
        1024..4096 => {
            let room = (soft - soft * 3 / 4) / 15;
            Finding::note(
                "descriptors",
                format!("{found}: enough for {room} peer processes of other users"),
                format!("for more: {raise}"),
            )
        }
        _ => Finding::good("descriptors", found),
    }
}

fn addresses() -> Finding {
    match getrlimit(Resource::RLIMIT_AS) {
        Ok((soft, _)) if soft != RLIM_INFINITY && soft < ADDRESSES => Finding::bad(
            "address space",
            format!("{} MB per process", soft >> 20),
            "shared memory reserves 20 GB of addresses, but uses few of them: run `ulimit -v unlimited`",
        ),
        _ => Finding::good("address space", "room for shared memory"),
    }
}

fn processors() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) if count.get() > 1 => Finding::good("processors", count.to_string()),
        _ => Finding::note(
            "processors",
            "1",
            "with a single processor, threads do not spin: each message to a waiting program costs a wake-up, as over TCP",
        ),
    }
}

fn memory() -> Finding {
    let host = memory_limits::host().map(|(total, _)| total);
    let smallest = [host, memory_limits::control_group()].into_iter().flatten().min();
    let limit = [smallest.map(|bytes| bytes / 8), memory_limits::tcp()].into_iter().flatten().min();
    let Some(limit) = limit else {
        return Finding::note(
            "memory",
            "cannot read the memory limits",
            "SOVIA_MEMORY sets how much memory Sovia may use, in MiB",
        );
    };
    let mib = limit >> 20;
    let found = format!("{mib} MiB for bytes that peers have not read yet");
    match mib {
        0..16 => Finding::note(
            "memory",
            found,
            "this is little for long messages: raise the control group's memory limit, or SOVIA_MEMORY",
        ),
        _ => Finding::good("memory", found),
    }
}

fn users() -> Finding {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let own = nix::unistd::geteuid();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_whole = map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"];
    if !is_whole && overflow.trim() == own.to_string() {
        return Finding::bad(
            "user",
            format!(
                "{own} is the overflow ID: the ID of this process's user is not mapped in this user namespace"
            ),
            "map the user's ID (uid_map), as container engines do by default",
        );
    }
    if is_whole {
        return Finding::good("user", own.to_string());
    }
    Finding::note(
        "user",
        format!("{own}, in a private user namespace"),
        "connections with users whose IDs are not mapped here need the agent and --trust any",
    )
}

fn yama() -> Finding {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    // Yama restricts attaching. Sovia only needs to read its peers, which each two programs check when they meet.
    Finding::good(
        "Yama",
        match scope {
            Ok(scope) => format!("ptrace_scope {}, which does not restrict Sovia", scope.trim()),
            Err(_) => "not in this kernel".into(),
        },
    )
}

fn filter() -> Finding {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        Some("2") => Finding::note(
            "system calls",
            "filtered (seccomp)",
            "filters of container engines and @system-service allow what the library needs; the trial below tests this filter",
        ),
        _ => Finding::good("system calls", "not filtered"),
    }
}

fn proc() -> Finding {
    if let Some(fault) = program::proc::fault() {
        return Finding::bad("/proc", fault.describe(), fault.advice());
    }
    match fs::metadata("/proc/1") {
        Ok(_) => Finding::good("/proc", "readable"),
        Err(_) => Finding::note(
            "/proc",
            "hides processes of other users (hidepid)",
            "programs of one user can use Sovia; connections with other users need --trust",
        ),
    }
}

fn loopback() -> Finding {
    if has_loopback() {
        Finding::good("loopback", "127.0.0.1 is reachable")
    } else {
        Finding::bad("loopback", "cannot reach 127.0.0.1", "run as root:  ip link set lo up")
    }
}

/// Returns false if the loopback device is down.
pub(super) fn has_loopback() -> bool {
    // If the device is up, a connection to a closed port is refused at once.
    let tried = TcpStream::connect(("127.0.0.1", 1)).map_err(|error| error.raw_os_error());
    !matches!(tried, Err(Some(libc::ENETUNREACH)))
}

/// Checks that the kernel reports the owner of the other end of a connection.
fn sockets() -> Finding {
    if !has_loopback() {
        return Finding::note(
            "sock_diag",
            "not checked: 127.0.0.1 is not reachable",
            "see the line `loopback`",
        );
    }
    let asked = || -> Result<u32, String> {
        let text = |error: std::io::Error| error.to_string();
        let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
        let here = TcpStream::connect(listener.local_addr().map_err(text)?).map_err(text)?;
        let (there, _) = listener.accept().map_err(text)?;
        let (local, peer) = (there.local_addr().map_err(text)?, there.peer_addr().map_err(text)?);
        let described = |errno| sovia_sys::described(errno).to_owned();
        diag::cookie(here.as_raw_fd()).map_err(described)?;
        diag::tcp_owner(local, peer).map(|owner| owner.uid).map_err(described)
    };
    match asked() {
        Ok(uid) if uid == nix::unistd::geteuid().as_raw() => {
            Finding::good("sock_diag", "the kernel reports who owns the other end of a connection")
        }
        Ok(uid) => Finding::note(
            "sock_diag",
            format!("the kernel reports user {uid} for a socket of this user"),
            "report this fault",
        ),
        Err(error) => Finding::bad(
            "sock_diag",
            format!("the kernel does not report who owns the other end of a connection: {error}"),
            "allow AF_NETLINK (RestrictAddressFamilies=), load the module inet_diag, or start the agent and use --trust",
        ),
    }
}

/// Checks for packet filters that may drop packets of local connections.
fn filters() -> Finding {
    let judgement = sovia_agent::filters::look();
    if judgement.by.is_empty() {
        return Finding::good(
            "packet filters",
            "no filter can stop packets of an open local connection",
        );
    }
    // A text that begins with "cannot" is about filters that the command could not list.
    let (unknown, known): (Vec<_>, Vec<_>) =
        judgement.by.into_iter().partition(|text| text.starts_with("cannot "));
    let mut found = Vec::new();
    if !known.is_empty() {
        found.push(format!(
            "these may stop packets of open local connections: {}",
            known.join("; ")
        ));
    }
    found.extend(unknown);
    Finding::note(
        "packet filters",
        found.join("; "),
        "accelerated connections bypass these filters: keep the ports on TCP (--except port=), or use --respect-filters and `sudo sovia agent --filters`",
    )
}

fn agent() -> Finding {
    let path =
        std::env::var_os(names::AGENT).map_or(PathBuf::from(sovia_agent::PATH), PathBuf::from);
    match UnixStream::connect(&path) {
        Ok(_) => Finding::good("agent", path.display().to_string()),
        Err(error) => Finding::note(
            "agent",
            match error.kind() {
                ErrorKind::NotFound => format!("no agent at {}", path.display()),
                ErrorKind::ConnectionRefused => {
                    format!("no agent at {}: no process listens there", path.display())
                }
                _ => format!("cannot connect to {}: {error}", path.display()),
            },
            "without an agent, containers on a bridge and units in a sandbox that hides other users stay on TCP: systemctl enable --now sovia-agent, or `sudo sovia agent`",
        ),
    }
}
