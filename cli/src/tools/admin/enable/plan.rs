//! Settings that a unit needs so that its programs load the library, and the library may do its work.

use std::path::{Path, PathBuf};

use anyhow::bail;
use sovia_control::env as names;

use crate::admin::unit::{Unit, quoted, quoted_with_specifiers, words};

/// A setting to write, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) section: &'static str,
    pub(crate) setting: String,
    pub(crate) why: String,
}

/// Settings to write, and notes to print.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) lines: Vec<Line>,
    /// Notes for the user about the consequences.
    pub(crate) notes: Vec<String>,
}

/// The user's request for a unit.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Path of the library.
    pub(crate) library: PathBuf,
    /// Rules as text; empty if there are none.
    pub(crate) rules: String,
    /// True if an agent may do what the sandbox forbids. Otherwise the settings open the sandbox.
    pub(crate) by_agent: bool,
}

/// System calls that the library makes, and that a program with sockets may not need. All of them are in
/// @system-service, without @privileged and @resources.
const CALLS: &str = "accept4 bind clone clone3 close connect dup dup3 epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 \
epoll_wait eventfd2 fallocate fcntl fstat ftruncate futex get_robust_list getdents64 geteuid getpid getrandom \
getsockname getsockopt gettid getuid ioctl kill lseek madvise membarrier memfd_create mmap mprotect munmap newfstatat openat \
pidfd_getfd pidfd_open pipe2 poll ppoll prctl pread64 preadv prlimit64 process_vm_readv process_vm_writev pwrite64 \
read readlink readlinkat readv recvfrom recvmsg rseq rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield \
sendmsg sendto set_robust_list setsockopt shutdown sigaltstack socket socketpair splice statx tgkill timerfd_create timerfd_settime \
uname write writev";
/// Sets of system calls that contain none of the library's calls.
const OTHERS: &[&str] = &[
    "@privileged",
    "@resources",
    "@clock",
    "@cpu-emulation",
    "@debug",
    "@keyring",
    "@module",
    "@mount",
    "@obsolete",
    "@pkey",
    "@raw-io",
    "@reboot",
    "@setuid",
    "@swap",
    "@chown",
    "@timer",
];

/// A program that starts others with an environment of its own, and the file for this environment.
const OWN_ENVIRONMENT: &[(&str, &str)] = &[(
    "pg_ctlcluster",
    "pg_ctlcluster gives the server its own environment: write LD_PRELOAD and SOVIA_RULES into /etc/postgresql/VERSION/CLUSTER/environment (docs/howto/postgresql.md)",
)];

/// Returns the settings for `unit`.
///
/// # Errors
/// An error if its programs would not load the library.
pub(crate) fn plan(unit: &Unit, wish: &Wish) -> anyhow::Result<Plan> {
    check_programs(unit)?;
    let mut plan = Plan::default();
    environment(unit, wish, &mut plan)?;
    place_of_the_library(unit, wish, &mut plan)?;
    families(unit, wish, &mut plan);
    packet_filters(unit, wish, &mut plan);
    filter(unit, &mut plan);
    limits(unit, &mut plan);
    Ok(plan)
}

impl Plan {
    fn write(&mut self, setting: String, why: impl Into<String>) {
        self.lines.push(Line { section: "Service", setting, why: why.into() });
    }
}

fn check_programs(unit: &Unit) -> anyhow::Result<()> {
    for program in programs(unit) {
        let name = Path::new(&program).file_name().unwrap_or_default();
        if let Some((_, why)) = OWN_ENVIRONMENT.iter().find(|(other, _)| name == *other) {
            bail!("cannot enable {}: {why}", unit.name);
        }
    }
    Ok(())
}

/// Returns the programs of the unit's main processes.
pub(crate) fn programs(unit: &Unit) -> Vec<String> {
    let first = |line: &&str| words(line).into_iter().next();
    let started = unit.values("ExecStart");
    let bare = |word: String| word.trim_start_matches(['-', '@', ':', '+', '!', '|']).to_owned();
    started.iter().filter_map(first).map(bare).collect()
}

/// Plans LD_PRELOAD, with the library before the present entries, and the rules.
fn environment(unit: &Unit, wish: &Wish, plan: &mut Plan) -> anyhow::Result<()> {
    let library = wish.library.display().to_string();
    if library.contains([' ', ':']) {
        bail!(
            "cannot preload {library}: LD_PRELOAD takes no path with a blank or a colon; move the library elsewhere"
        );
    }
    let own = library.replace('%', "%%");
    let assigned = unit.list("Environment");
    let mut preload = own.clone();
    for other in assigned.iter().filter_map(|word| word.strip_prefix("LD_PRELOAD=")) {
        let others = other.split([':', ' ']).filter(|other| !other.is_empty() && *other != own);
        // Other entries keep their specifiers, which systemd expands here as well.
        preload = others.fold(own.clone(), |all, other| format!("{all}:{other}"));
    }
    for name in ["LD_PRELOAD", names::RULES] {
        if unit.list("UnsetEnvironment").iter().any(|word| word.split('=').next() == Some(name)) {
            bail!(
                "cannot enable {}: the unit has UnsetEnvironment={name}, which removes what Sovia sets",
                unit.name
            );
        }
    }
    for file in unit.list("EnvironmentFile") {
        let path = file.trim_start_matches('-');
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().any(|line| line.trim_start().starts_with("LD_PRELOAD=")) {
            bail!(
                "cannot enable {}: {path} (EnvironmentFile=) sets LD_PRELOAD, and overrides a drop-in; \
                 add {library} to LD_PRELOAD in that file",
                unit.name
            );
        }
    }
    let mut setting =
        format!("Environment={}", quoted_with_specifiers(&format!("LD_PRELOAD={preload}")));
    if !wish.rules.is_empty() {
        setting.push(' ');
        setting.push_str(&quoted(&format!("{}={}", names::RULES, wish.rules)));
    }
    plan.write(setting, "The library, and the connections that the library may accelerate.");
    Ok(())
}

/// Plans access to the library's folder: the unit's programs must see the library, and may map it for execution.
fn place_of_the_library(unit: &Unit, wish: &Wish, plan: &mut Plan) -> anyhow::Result<()> {
    let library = &wish.library;
    let folder = library.parent().unwrap_or(Path::new("/"));
    for (key, places) in [
        ("ProtectHome", &["/home", "/root", "/run/user"][..]),
        ("PrivateTmp", &["/tmp", "/var/tmp"][..]),
    ] {
        let hides = unit.is_on(key) && unit.value(key) != Some("read-only");
        if hides && places.iter().any(|place| library.starts_with(place)) {
            bail!(
                "cannot enable {}: {key}= hides {} from the unit; install Sovia (`make install`, or its package)",
                unit.name,
                library.display()
            );
        }
    }
    // Of two matching paths, the longer one applies.
    let longest = |key: &str| {
        let paths = unit.list(key);
        let paths = paths.iter().map(|path| path.trim_start_matches(['-', '+']));
        let above = paths.filter(|path| library.starts_with(path));
        above.map(str::len).max()
    };
    if let Some(forbidden) = longest("NoExecPaths")
        && longest("ExecPaths").is_none_or(|allowed| allowed < forbidden)
    {
        plan.write(
            format!("ExecPaths={}", quoted(&folder.display().to_string())),
            "NoExecPaths= forbids executing files in the library's folder.",
        );
    }
    if unit.value("RootDirectory").or(unit.value("RootImage")).is_some() {
        plan.write(
            format!("BindReadOnlyPaths={}", quoted(&folder.display().to_string())),
            "The unit has its own root folder (RootDirectory=, RootImage=), and must see the library there.",
        );
    }
    Ok(())
}

/// Plans the address families of the library's sockets. Where the kernel cannot identify a peer, the library asks the
/// agent.
fn families(unit: &Unit, wish: &Wish, plan: &mut Plan) {
    if !may_open(unit, "AF_UNIX") {
        plan.write(
            allowing("AF_UNIX"),
            "Two ends find each other, and pass file descriptors, over Unix sockets.",
        );
    }
    let may_ask = may_open(unit, "AF_NETLINK");
    let has_own_users = unit.is_on("PrivateUsers");
    let has_own_network =
        unit.is_on("PrivateNetwork") || unit.value("NetworkNamespacePath").is_some();
    let mut obstacles = Vec::new();
    if !may_ask {
        obstacles.push("may not ask the kernel who owns a socket (RestrictAddressFamilies= without AF_NETLINK)");
    }
    if has_own_users {
        obstacles.push("does not map the IDs of other users (PrivateUsers=)");
    }
    if has_own_network {
        obstacles.push("has its own network namespace (PrivateNetwork=, NetworkNamespacePath=)");
    }
    if obstacles.is_empty() {
        return;
    }
    if wish.by_agent {
        let why = format!("The unit {}, so the library asks the agent.", obstacles.join(", and "));
        wants(unit, plan, "sovia-agent", why);
        if has_own_users && wish.rules.contains("trust:") && !wish.rules.contains("trust:any") {
            plan.notes.push(
                "with PrivateUsers=, the unit does not map the IDs of other users, so --trust user=, uid= and group= match no user: \
                 use --trust any, or --without-agent, which switches PrivateUsers= off"
                    .into(),
            );
        }
        return;
    }
    if !may_ask {
        plan.write(
            allowing("AF_NETLINK"),
            "The library asks the kernel who owns the other end of a connection.",
        );
    }
    if has_own_users {
        plan.write(
            "PrivateUsers=no".into(),
            "A private user namespace maps only the IDs of root and of the unit's own user.",
        );
    }
    if has_own_network {
        plan.notes.push(
            "the unit has its own network namespace: without the agent, only connections within that namespace are accelerated".into(),
        );
    }
}

/// Plans the agent that rules about packet filters need.
fn packet_filters(unit: &Unit, wish: &Wish, plan: &mut Plan) {
    if wish.rules.contains("respect-filters:") {
        wants(
            unit,
            plan,
            "sovia-filters",
            "The agent reports what packet filters let pass.".into(),
        );
    }
}

/// Plans an agent that starts before the unit. The unit must see the agent's socket.
fn wants(unit: &Unit, plan: &mut Plan, agent: &str, why: String) {
    let setting = |key: &str| format!("{key}={agent}.service");
    plan.lines.push(Line { section: "Unit", setting: setting("Wants"), why });
    plan.lines.push(Line { section: "Unit", setting: setting("After"), why: String::new() });
    let bind = "BindReadOnlyPaths=-/run/sovia";
    if hides_the_agent(unit) && plan.lines.iter().all(|line| line.setting != bind) {
        plan.write(bind.into(), "The agent's socket is in this folder.");
    }
}

/// Returns true if the unit may open sockets of this family.
fn may_open(unit: &Unit, family: &str) -> bool {
    let mut allows = None;
    let mut listed = Vec::new();
    for value in unit.values("RestrictAddressFamilies") {
        if value == "none" {
            allows.get_or_insert(true);
            continue;
        }
        let (own, names) = match value.strip_prefix('~') {
            Some(names) => (false, names),
            None => (true, value),
        };
        // The first value decides the list's kind: allowed or denied. Later values add to the list or remove from it.
        let kind = *allows.get_or_insert(own);
        for name in names.split_whitespace() {
            if kind == own {
                listed.push(name);
            } else {
                listed.retain(|other| *other != name);
            }
        }
    }
    allows.is_none_or(|allows| listed.contains(&family) == allows)
}

/// Returns the setting that allows a family. It extends a list of allowed families and shortens a list of denied ones.
fn allowing(family: &str) -> String {
    format!("RestrictAddressFamilies={family}")
}

fn hides_the_agent(unit: &Unit) -> bool {
    let hides = |key: &str| {
        let paths = unit.list(key);
        paths.iter().any(|path| {
            let path = path.trim_start_matches(['-', '+']).split(':').next().unwrap_or_default();
            Path::new("/run/sovia").starts_with(path)
        })
    };
    unit.value("RootDirectory").or(unit.value("RootImage")).is_some()
        || hides("InaccessiblePaths")
        || hides("TemporaryFileSystem")
}

/// Plans system calls of the library that the unit's filter may not allow.
fn filter(unit: &Unit, plan: &mut Plan) {
    let mut values = unit.values("SystemCallFilter").into_iter();
    let Some(first) = values.next() else { return };
    let is_known = |names: &str| names.split_whitespace().all(|name| OTHERS.contains(&name));
    let denies = |value: &str| value.strip_prefix('~').map(&is_known);
    let suffices = match denies(first) {
        Some(known) => known,
        None => first.split_whitespace().any(|name| name == "@system-service" || name == "@known"),
    };
    if suffices && values.all(|value| denies(value).unwrap_or(true)) {
        return;
    }
    plan.write(
        format!("SystemCallFilter={CALLS}"),
        "System calls that the library makes. The unit's filter may lack some that @system-service has.",
    );
    if unit.value("SystemCallErrorNumber").is_none_or(|value| value == "kill") {
        plan.notes.push(
            "the unit's filter kills the program at a system call that the filter does not allow: test the unit before you rely on it".into(),
        );
    }
}

/// Adds notes about limits that are too low.
fn limits(unit: &Unit, plan: &mut Plan) {
    let soft =
        |key: &str| unit.value(key).and_then(|value| value.split(':').next().map(str::to_owned));
    if let Some(files) = soft("LimitNOFILE").and_then(|value| value.parse::<u64>().ok())
        && files < 1024
    {
        plan.notes.push(format!("LimitNOFILE={files} leaves Sovia no descriptors, so all connections stay on TCP: set 1024 or more"));
    }
    if let Some(space) = soft("LimitAS")
        && space != "infinity"
    {
        plan.notes.push(format!(
            "LimitAS={space}: shared memory reserves 20 GB of addresses, but uses few of them; with a lower limit, all connections stay on TCP"
        ));
    }
}
