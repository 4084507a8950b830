//! Reads the packet filters of a network namespace.
//!
//! nftables' rules are judged one by one. Today's distributions also turn `iptables` commands into such rules.
//! Traffic control at the loopback device counts as stopping all packets. So do rules of iptables-legacy, because the
//! kernel reports no changes of them.

use super::judge::{Judgement, judge};
use serde_json::Value;
use sovia_sys::{Errno, bpf};
use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};

/// Maximum length of a listing in bytes. A listing takes about ten times as much memory.
const LISTING_MAX: u64 = 4 << 20;

/// Folders of the tools.
const FOLDERS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Seconds after which a tool is killed. nft begins again whenever the rules change while it lists them.
const TOOL_SECONDS: &str = "5";
/// Exit statuses of `timeout` if it has killed the tool, and if the tool does not exist.
const KILLED: i32 = 137;
const NO_TOOL: i32 = 127;

/// Judges the filters of the calling thread's network namespace, except those of control groups.
pub fn look() -> Judgement {
    look_beside(unreported())
}

/// Like [`look`], with the result of [`unreported`] from the caller.
pub(super) fn look_beside(unreported: Option<String>) -> Judgement {
    let mut judgement = match list("nft", "nftables", &["-j", "list", "ruleset"]) {
        Ok(listing) => judge(&listing).unwrap_or_else(|| {
            Judgement::nothing_passes("nftables: `nft -j list ruleset` printed no rule set".into())
        }),
        Err(reason) => Judgement::nothing_passes(reason),
    };
    if let Some(reason) = unreported.or_else(traffic_control) {
        judgement.and(Judgement::nothing_passes(reason));
    }
    judgement
}

/// Names a filter that may stop packets, and whose changes the kernel does not report, if there is one.
pub(super) fn unreported() -> Option<String> {
    legacy_tables().or_else(programs_at_lo)
}

/// Reports BPF programs that the kernel runs on packets of the loopback device (tcx, Linux 6.6), if there are any.
fn programs_at_lo() -> Option<String> {
    // `LOOPBACK_IFINDEX`.
    const LO: i32 = 1;
    match bpf::programs_at_device(LO) {
        // This kernel is older than Linux 6.6.
        Ok(0) | Err(Errno::EINVAL) => None,
        Ok(n) => Some(format!("{n} BPF programs at lo (`bpftool net` lists them)")),
        Err(error) => {
            Some(format!("cannot count BPF programs at lo: {}", sovia_sys::described(error)))
        }
    }
}

/// Names the tables of iptables-legacy in the calling thread's network namespace, if there are any.
fn legacy_tables() -> Option<String> {
    for (program, file) in [("iptables-legacy", "ip_tables"), ("ip6tables-legacy", "ip6_tables")] {
        let path = format!("/proc/thread-self/net/{file}_names");
        match std::fs::read_to_string(path) {
            Ok(names) if names.trim().is_empty() => {}
            Ok(names) => {
                let names = names.split_whitespace().collect::<Vec<_>>().join(", ");
                return Some(format!("tables of {program}: {names}"));
            }
            // The kernel has no such tables.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Some(format!("cannot read the tables of {program}: {error}")),
        }
    }
    None
}

/// Names the queueing discipline or the XDP program of the loopback device, if there is one.
fn traffic_control() -> Option<String> {
    let list = |program: &str, args: &[&str]| match list(program, "iproute2", args) {
        Ok(Value::Array(all)) => Ok(all),
        Ok(_) => Err(format!("`{program} {}` printed no list", args.join(" "))),
        Err(reason) => Err(reason),
    };
    let disciplines = match list("tc", &["-j", "qdisc", "show", "dev", "lo"]) {
        Ok(all) => all,
        Err(reason) => return Some(reason),
    };
    let kinds = disciplines.iter().map(|it| it.get("kind").and_then(Value::as_str));
    let kind = kinds.map(Option::unwrap_or_default).find(|&kind| kind != "noqueue");
    if let Some(kind) = kind {
        return Some(format!("the queueing discipline {kind} at lo (`tc qdisc show dev lo`)"));
    }
    match list("ip", &["-j", "link", "show", "lo"]) {
        Ok(links) if links.iter().any(|link| link.get("xdp").is_some()) => {
            Some("an XDP program at lo (`ip link show lo`)".into())
        }
        Ok(_) => None,
        Err(reason) => Some(reason),
    }
}

/// Runs a tool that prints JSON.
///
/// # Errors
/// A text that begins with "cannot".
fn list(program: &str, package: &str, args: &[&str]) -> Result<Value, String> {
    run(program, package, args).map_err(|why| format!("cannot list packet filters: {why}"))
}

fn run(program: &str, package: &str, args: &[&str]) -> Result<Value, String> {
    let command = || format!("`{program} {}`", args.join(" "));
    let mut tool = Command::new("timeout");
    tool.args(["-s", "KILL", TOOL_SECONDS, program]).args(args).env_clear().env("PATH", FOLDERS);
    tool.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = tool.spawn().map_err(|error| format!("cannot start {}: {error}", command()))?;
    let mut text = Vec::new();
    let read = match child.stdout.take() {
        Some(output) => output.take(LISTING_MAX + 1).read_to_end(&mut text),
        None => Ok(0),
    };
    if text.len() as u64 > LISTING_MAX {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("{}: {error}", command()))?;
    if text.len() as u64 > LISTING_MAX {
        return Err(format!("{} printed more than {} MiB", command(), LISTING_MAX >> 20));
    }
    match status.code() {
        Some(NO_TOOL) => return Err(format!("{program} is not installed; install {package}")),
        Some(KILLED) | None => {
            return Err(format!("{} took longer than {TOOL_SECONDS} s", command()));
        }
        Some(_) => {}
    }
    if read.is_err() || !status.success() {
        return Err(format!("{} failed ({status}); run as root", command()));
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Array(Vec::new()));
    }
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", command()))
}
