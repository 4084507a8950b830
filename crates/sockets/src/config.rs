//! The user's settings, read once from the environment. If the environment has none, and /etc/ld.so.preload has
//! loaded the library, the system's rules in /etc/sovia/rules apply.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SOVIA_RULES` | which connections may be accelerated ([`sovia_control::Rules`]) | all |
//! | `SOVIA_STATS` | file for counters, made by `sovia run -v` | none |
//! | `SOVIA_SPIN` | longest spin before a sleep, in microseconds; 0: sleep at once | 50 |
//! | `SOVIA_MEET` | number of an end's transfers before it begins a rendezvous | from earlier connections |
//! | `SOVIA_PROTOCOL` | settings from the papers' table 4 ([`crate::protocol`]) | `auto` |
//! | `SOVIA_MEMORY` | MiB of shared memory that may hold unread bytes | from the kernel's limits |
//! | `SOVIA_FILTERS` | path of the agent that watches packet filters | `/run/sovia/filters` |
//! | `SOVIA_IO_URING` | `allow`: programs may use io_uring | refused |

use crate::per_engine::per_engine;
use core::ffi::CStr;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use sovia_control::env::{SYSTEM_RULES, SYSTEM_RULES_MAX};
use sovia_control::{Effect, End, NicRule, Reason, Rules};
use sovia_proto::configuration::Configuration;
use sovia_sys::{Errno, call, small_file};

per_engine! {
    static SPIN_US: AtomicU32 = AtomicU32::new(50);
    /// 0 if the user has not set `SOVIA_MEET`; else the value plus one.
    static MEET_AFTER: AtomicU32 = AtomicU32::new(0);
    static IO_URING: AtomicBool = AtomicBool::new(false);
}
static CPUS: AtomicU32 = AtomicU32::new(1);
per_engine! {
    static RULES: AtomicPtr<Rules> = AtomicPtr::new(core::ptr::null_mut());
}
/// Path of this host's agent, if the user has chosen one. The string is never freed.
static AGENT: AtomicPtr<libc::c_char> = AtomicPtr::new(core::ptr::null_mut());
/// Path of the agent that watches packet filters, if the user has chosen one. The string is never freed.
static FILTER_AGENT: AtomicPtr<libc::c_char> = AtomicPtr::new(core::ptr::null_mut());
/// Set if libc's streams (`FILE`) read and write without the hooks.
static HAS_STRANGE_STREAMS: AtomicBool = AtomicBool::new(false);
static PROGRAM: AtomicPtr<libc::c_char> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    static program_invocation_short_name: *mut libc::c_char;
}

fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: no thread changes the environment during this call. The preloaded library makes this call before the
    // program's code runs. In libsovia and the Rust crate, the program's first call of Sovia leads here, and the
    // program must not change the environment during this call. The environment's strings are not freed.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

fn number(name: &CStr) -> Option<u32> {
    variable(name)?.to_str().ok()?.parse().ok()
}

/// Reads the system's rules, if the environment has no rules. Returns true if the rules may allow the program a
/// connection. If the file does not exist, all connections are allowed. If the file cannot be read or parsed, none
/// is allowed.
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

/// Stores a copy of the program's name, because programs such as Redis overwrite the original with a title.
fn learn_program() {
    if !PROGRAM.load(Ordering::Relaxed).is_null() {
        return;
    }
    // SAFETY: glibc sets this variable before any constructor runs.
    let name = unsafe { program_invocation_short_name };
    if !name.is_null() {
        // SAFETY: glibc points this variable to a C string of the program's arguments, which stays mapped.
        let copy = unsafe { CStr::from_ptr(name) }.to_owned();
        PROGRAM.store(copy.into_raw(), Ordering::Relaxed);
    }
}

/// Reads the settings from the environment.
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
    // `sovia run` has checked this text. If the user has set an invalid text by hand, ignore it.
    if let Some(text) = variable(c"SOVIA_PROTOCOL").and_then(|text| text.to_str().ok())
        && let Ok(configuration) = Configuration::of_socket(text)
    {
        crate::protocol::choose(&configuration);
    }
    // `sovia run` has checked the rules. If the user has set invalid rules by hand, accelerate nothing.
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
        // Copy the path, because programs overwrite the environment with their titles.
        AGENT.store(path.to_owned().into_raw(), Ordering::Release);
    }
    if let Some(path) = variable(c"SOVIA_FILTERS") {
        FILTER_AGENT.store(path.to_owned().into_raw(), Ordering::Release);
    }
    if let Some(path) = variable(c"SOVIA_STATS") {
        crate::stats::open(path);
    }
}

/// Returns the longest spin in nanoseconds.
pub fn spin_max_ns() -> u64 {
    u64::from(SPIN_US.load(Ordering::Relaxed)) * 1000
}

/// Returns the number of transfers after which an end begins a rendezvous, if the user has set this number.
pub fn meet_after() -> Option<u32> {
    MEET_AFTER.load(Ordering::Relaxed).checked_sub(1)
}

/// Sets the number that [`meet_after`] returns, in a test.
#[cfg(test)]
pub(crate) fn meet_after_transfers(n: u32) {
    MEET_AFTER.store(n + 1, Ordering::Relaxed);
}

/// Returns true if the program may use io_uring.
pub fn io_uring_allowed() -> bool {
    IO_URING.load(Ordering::Relaxed)
}

/// Allows io_uring. Called if no connection will have a record, so that io_uring cannot bypass one.
pub(crate) fn allow_io_uring() {
    IO_URING.store(true, Ordering::Relaxed);
}

/// Returns the number of processors that this process could use at its start.
pub fn cpus() -> u32 {
    CPUS.load(Ordering::Relaxed)
}

/// Returns true if the rules allow the connection between `local` and `peer` to be accelerated.
pub fn allows(end: End, local: SocketAddr, peer: SocketAddr) -> bool {
    rules().is_none_or(|rules| rules.allows(program(), end, local, peer))
}

/// Records that this libc's streams (`FILE`) read and write without the hooks. Then no connection of this process
/// is accelerated.
pub fn has_strange_streams() {
    HAS_STRANGE_STREAMS.store(true, Ordering::Relaxed);
}

/// Returns the reason why no connection of this process may be accelerated, independently of the rules. `None` if there
/// is no such reason.
pub(crate) fn keeps_on_tcp() -> Option<Reason> {
    HAS_STRANGE_STREAMS.load(Ordering::Relaxed).then_some(Reason::UnknownLibc)
}

/// Returns the NIC in software that must carry the connection, if the rules name one.
pub(crate) fn nic(end: End, local: SocketAddr, peer: SocketAddr) -> Option<NicRule<'static>> {
    rules()?.nic(program(), end, local, peer)
}

/// Returns true if the rules let the connection share memory with a process of user `uid`. These rules replace the
/// kernel's rule for tracing, which does not let such a process share memory.
pub(crate) fn trusts(end: End, local: SocketAddr, peer: SocketAddr, uid: Option<u32>) -> bool {
    rules().is_some_and(|rules| rules.trusts(program(), end, local, peer, uid))
}

/// Returns true if the rules let the connection share memory with processes of some other user.
pub(crate) fn trusts_some(end: End, local: SocketAddr, peer: SocketAddr) -> bool {
    rules().is_some_and(|rules| rules.trusts_some(program(), end, local, peer))
}

/// Returns the path of this host's agent, unless the user wants no agent.
pub(crate) fn agent() -> Option<&'static CStr> {
    const PATH: &CStr = c"/run/sovia/agent";
    const { assert!(matches!(PATH.to_str(), Ok(path) if path.len() == sovia_proto::agent::PATH.len())) };
    Some(chosen(&AGENT).unwrap_or(PATH)).filter(|path| !path.is_empty())
}

/// Returns the path in `path`, if the user has chosen one.
fn chosen(path: &AtomicPtr<libc::c_char>) -> Option<&'static CStr> {
    let path = path.load(Ordering::Acquire);
    // SAFETY: the pointer is null or leads to a C string that is never freed.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// Returns true if the rules accelerate the connection only while packet filters let every packet pass.
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

/// Returns true if any rule names a NIC in software.
pub(crate) fn names_nics() -> bool {
    rules().is_some_and(|rules| rules.have(Effect::Nic))
}

fn rules() -> Option<&'static Rules> {
    // SAFETY: the pointer is null or comes from a leaked box.
    unsafe { RULES.load(Ordering::Acquire).as_ref() }
}

/// Returns the program's short name.
fn program() -> &'static [u8] {
    let name = PROGRAM.load(Ordering::Relaxed);
    if name.is_null() {
        return &[];
    }
    // SAFETY: the pointer comes from a leaked C string.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}
