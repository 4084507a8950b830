//! What the user decided, read once from the environment. Where that says nothing, and /etc/ld.so.preload has brought the library, the
//! rules are those of the system, /etc/sovia/rules.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SOVIA_RULES` | which connections may be accelerated ([`sovia_control::Rules`]) | all |
//! | `SOVIA_STATS` | file to count into, made by `sovia run -v` | none |
//! | `SOVIA_SPIN` | longest spin before sleep, in microseconds; 0: sleep at once | 50 |
//! | `SOVIA_MEET` | transfers of an end before it looks for its peer | as earlier connections suggest |
//! | `SOVIA_PROTOCOL` | what of the papers' table 4 is done ([`crate::protocol`]) | `auto` |
//! | `SOVIA_MEMORY` | MiB of shared memory that may hold what peers have not read | by the kernel's limits |
//! | `SOVIA_FILTERS` | path of the agent that watches packet filters | `/run/sovia/filters` |
//! | `SOVIA_IO_URING` | `allow`: io_uring is let through | refused |

use crate::per_engine::per_engine;
use core::ffi::CStr;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use sovia_control::env::{SYSTEM_RULES, SYSTEM_RULES_MAX};
use sovia_control::{Effect, End, NicName, Reason, Rules};
use sovia_proto::configuration::Configuration;
use sovia_sys::{Errno, call, small_file};

per_engine! {
    static SPIN_US: AtomicU32 = AtomicU32::new(50);
    /// 0: nothing was said.
    static MEET_AFTER: AtomicU32 = AtomicU32::new(0);
    static IO_URING: AtomicBool = AtomicBool::new(false);
}
static CPUS: AtomicU32 = AtomicU32::new(1);
per_engine! {
    static RULES: AtomicPtr<Rules> = AtomicPtr::new(core::ptr::null_mut());
}
/// Where the agent is found, if the user has said so: a string that stays.
static AGENT: AtomicPtr<libc::c_char> = AtomicPtr::new(core::ptr::null_mut());
/// Path of the agent that watches packet filters, if the user has chosen another one: a string that stays.
static FILTER_AGENT: AtomicPtr<libc::c_char> = AtomicPtr::new(core::ptr::null_mut());
/// Whether libc reads and writes by streams that go past the hooks.
static HAS_STRANGE_STREAMS: AtomicBool = AtomicBool::new(false);
static PROGRAM: AtomicPtr<libc::c_char> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    static program_invocation_short_name: *mut libc::c_char;
}

fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: called before the program's code runs, so no thread changes the environment; the
    // strings in it stay where they are.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

fn number(name: &CStr) -> Option<u32> {
    variable(name)?.to_str().ok()?.parse().ok()
}

/// Takes the rules of the system, for a program that its environment says nothing about. Returns whether they leave it any
/// connection: a file that cannot be read or understood leaves none, no file leaves all.
pub fn follow_system() -> bool {
    learn_program();
    if variable(c"SOVIA_RULES").is_some() {
        return true;
    }
    let text = match small_file::read(SYSTEM_RULES, SYSTEM_RULES_MAX) {
        Err(Errno::ENOENT) => return true,
        text => text.ok().and_then(|text| String::from_utf8(text).ok()),
    };
    let rules = text.and_then(|text| Rules::parse_file(&text).ok());
    let Some(rules) = rules.filter(|rules| rules.concern(program())) else { return false };
    RULES.store(Box::into_raw(Box::new(rules)), Ordering::Release);
    true
}

/// Remembers the program's name. A copy: programs write their titles over it, as Redis does.
fn learn_program() {
    if !PROGRAM.load(Ordering::Relaxed).is_null() {
        return;
    }
    // SAFETY: glibc sets it before any constructor runs.
    let name = unsafe { program_invocation_short_name };
    if !name.is_null() {
        // SAFETY: a string, which no code of the program's has changed so far.
        let copy = unsafe { CStr::from_ptr(name) }.to_owned();
        PROGRAM.store(copy.into_raw(), Ordering::Relaxed);
    }
}

/// Reads the environment.
pub fn load() {
    learn_program();
    CPUS.store(call::cpus_allowed(), Ordering::Relaxed);
    if let Some(us) = number(c"SOVIA_SPIN") {
        SPIN_US.store(us.min(10_000), Ordering::Relaxed);
    }
    if let Some(n) = number(c"SOVIA_MEET") {
        MEET_AFTER.store(n.saturating_add(1), Ordering::Relaxed);
    }
    if let Some(mib) = number(c"SOVIA_MEMORY") {
        crate::backlog::choose(u64::from(mib) << 20);
    }
    if variable(c"SOVIA_IO_URING").is_some_and(|v| v == c"allow") {
        IO_URING.store(true, Ordering::Relaxed);
    }
    // `sovia run` has checked this too; a hand-made bad one changes nothing.
    if let Some(text) = variable(c"SOVIA_PROTOCOL").and_then(|text| text.to_str().ok())
        && let Ok(configuration) = Configuration::of_socket(text)
    {
        crate::protocol::choose(&configuration);
    }
    // `sovia run` has checked the rules; a hand-made bad one accelerates nothing.
    if let Some(text) = variable(c"SOVIA_RULES") {
        let rules = text
            .to_str()
            .ok()
            .and_then(|text| Rules::parse(text).ok())
            .or_else(|| Rules::parse("except:addr=0.0.0.0/0;except:addr=::/0").ok());
        if let Some(rules) = rules {
            RULES.store(Box::into_raw(Box::new(rules)), Ordering::Release);
        }
    }
    if let Some(path) = variable(c"SOVIA_AGENT") {
        // A copy: programs write their titles over the environment.
        AGENT.store(path.to_owned().into_raw(), Ordering::Release);
    }
    if let Some(path) = variable(c"SOVIA_FILTERS") {
        FILTER_AGENT.store(path.to_owned().into_raw(), Ordering::Release);
    }
    if let Some(path) = variable(c"SOVIA_STATS") {
        crate::stats::open(path);
    }
}

/// Longest spin in nanoseconds.
pub fn spin_max_ns() -> u64 {
    u64::from(SPIN_US.load(Ordering::Relaxed)) * 1000
}

/// Transfers of an end before it looks for its peer, if the user has said how many.
pub fn meet_after() -> Option<u32> {
    MEET_AFTER.load(Ordering::Relaxed).checked_sub(1)
}

/// Says in the place of the user how many.
#[cfg(test)]
pub(crate) fn meet_after_transfers(n: u32) {
    MEET_AFTER.store(n + 1, Ordering::Relaxed);
}

/// Whether io_uring may be used.
pub fn io_uring_allowed() -> bool {
    IO_URING.load(Ordering::Relaxed)
}

/// Lets rings through: no connection is on record that they could pass by.
pub(crate) fn allow_io_uring() {
    IO_URING.store(true, Ordering::Relaxed);
}

/// Processors that this process may use.
pub fn cpus() -> u32 {
    CPUS.load(Ordering::Relaxed)
}

/// Whether the rules let a connection be accelerated.
pub fn allows(end: End, local: SocketAddr, peer: SocketAddr) -> bool {
    rules().is_none_or(|rules| rules.allows(program(), end, local, peer))
}

/// Streams of this libc read and write past the hooks: no connection of this process is accelerated.
pub fn has_strange_streams() {
    HAS_STRANGE_STREAMS.store(true, Ordering::Relaxed);
}

/// Why no connection of this process may be accelerated, if so, whatever the rules say.
pub(crate) fn keeps_on_tcp() -> Option<Reason> {
    HAS_STRANGE_STREAMS.load(Ordering::Relaxed).then_some(Reason::UnknownLibc)
}

/// The NIC in software by which a connection is to be accelerated, if the rules name one.
pub(crate) fn nic(end: End, local: SocketAddr, peer: SocketAddr) -> Option<&'static NicName> {
    rules()?.nic(program(), end, local, peer)
}

/// Whether the rules let a connection share memory with a process of that user, whom this process cannot tell from others
/// by the kernel's rule for tracing.
pub(crate) fn trusts(end: End, local: SocketAddr, peer: SocketAddr, uid: Option<u32>) -> bool {
    rules().is_some_and(|rules| rules.trusts(program(), end, local, peer, uid))
}

/// Whether the rules let a connection share memory with a process of some user beside this one's.
pub(crate) fn trusts_some(end: End, local: SocketAddr, peer: SocketAddr) -> bool {
    rules().is_some_and(|rules| rules.trusts_some(program(), end, local, peer))
}

/// Where the agent of this host is found, unless the user wants none.
pub(crate) fn agent() -> Option<&'static CStr> {
    const PATH: &CStr = c"/run/sovia/agent";
    const { assert!(matches!(PATH.to_str(), Ok(path) if path.len() == sovia_proto::agent::PATH.len())) };
    Some(chosen(&AGENT).unwrap_or(PATH)).filter(|path| !path.is_empty())
}

/// Returns the path that the user has chosen, if any.
fn chosen(path: &AtomicPtr<libc::c_char>) -> Option<&'static CStr> {
    let path = path.load(Ordering::Acquire);
    // SAFETY: null, or a C string that is never freed.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// Returns true if the rules accelerate a connection only while packet filters let every packet pass.
pub(crate) fn respects_filters(end: End, local: SocketAddr, peer: SocketAddr) -> bool {
    rules().is_some_and(|rules| rules.respects_filters(program(), end, local, peer))
}

/// Returns true if any rule is about packet filters.
pub(crate) fn respects_any_filters() -> bool {
    rules().is_some_and(|rules| rules.have(Effect::RespectFilters))
}

/// Returns the path of the agent that watches packet filters.
pub(crate) fn filter_agent() -> &'static CStr {
    const PATH: &CStr = c"/run/sovia/filters";
    const {
        assert!(matches!(PATH.to_str(), Ok(path) if path.len() == sovia_proto::filters::PATH.len()))
    };
    chosen(&FILTER_AGENT).unwrap_or(PATH)
}

/// Whether any rule names one.
pub(crate) fn names_nics() -> bool {
    rules().is_some_and(|rules| rules.have(Effect::Nic))
}

fn rules() -> Option<&'static Rules> {
    // SAFETY: null, or a leaked box.
    unsafe { RULES.load(Ordering::Acquire).as_ref() }
}

/// The program's short name.
fn program() -> &'static [u8] {
    let name = PROGRAM.load(Ordering::Relaxed);
    if name.is_null() {
        return &[];
    }
    // SAFETY: a leaked C string.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}
