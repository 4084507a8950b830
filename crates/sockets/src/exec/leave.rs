//! Leaves data about connections to the program that this process executes.

use super::program::{Target, loads_library, may_ignore_environment};
use super::{Descriptors, outlasts_exec};
use crate::conn::{Conn, Phase, flag};
use crate::per_engine::per_engine;
use crate::process_slots::{LocksToLeave, Reserved};
use crate::table::{self, Ref};
use crate::{
    Errno, family, other_families, pair, peers, process, process_slots, rendezvous, stream,
};
use core::sync::atomic::{AtomicBool, Ordering};
use smallvec::SmallVec;
use sovia_control::inheritance::{
    CONNECTIONS_MAX, Head, Inheritance, Inherited, LEN, NUMBERS, PIPE_ENDS_MAX, Passed,
};
use sovia_sys::mapping::{Room, is_free_in_programs};
use sovia_sys::{Fd, build, call};

/// Flags of connections that stay behind, because a part of the connection belongs to this process or to an agent.
const OWN_PART: u32 =
    flag::CORRUPT | flag::RELAYED | flag::LEFT_TO_EPOLL_SETS | flag::UNANSWERED | flag::REFLECTED;

/// Preparation of an exec. If the exec fails, the caller drops this object, which undoes the preparation.
#[derive(Debug, Default)]
#[must_use]
pub struct ExecPreparation {
    /// Connections for which the program counts as a program outside the family.
    counted: SmallVec<[&'static Conn; 4]>,
    passed: Option<JoinPreparation>,
}

/// Descriptors and a process slot for a program that joins the family.
#[derive(Debug)]
struct JoinPreparation {
    connections: SmallVec<[&'static Conn; 4]>,
    /// Descriptors of this process that the exec keeps.
    kept: SmallVec<[i32; 32]>,
    reserved: Option<Reserved>,
    _locks: LocksToLeave,
    /// The data. It is the first descriptor that the exec keeps, and the last one that is closed after a failed exec.
    /// So a child that another thread makes meanwhile finds all others by the data.
    data: Fd,
}

/// Leaves connections to the program that this process is about to execute. `inherited` has the descriptors that the
/// program inherits. `target` names the program, and is called only if it may join the family.
///
/// # Errors
/// Those with which the exec would fail, if the program does not exist or is none.
pub(super) fn leave<'a>(
    inherited: &Descriptors,
    target: impl FnOnce() -> Target<'a>,
) -> Result<ExecPreparation, Errno> {
    let mut left = ExecPreparation::default();
    if inherited.is_empty() || process::is_under_seccomp() {
        // Under seccomp, this process has already given up its connections, and its family's records show that.
        return Ok(left);
    }
    let target = if family::file().is_some() { target() } else { Target::Unknown };
    let (is_command, loads_library) =
        (matches!(target, Target::Command(_)), loads_library(target)?);
    if process::has_shared() {
        // A child that runs on this process's memory may have its own descriptors of the connections, and no record
        // names such a child.
        other_families::spread(inherited);
        return Ok(left);
    }
    if loads_library && may_join(inherited) {
        left.passed = pass(inherited, is_command);
    }
    for &(_, at) in inherited {
        let is_outside = is_command || !left.passes(at.conn);
        if is_outside && !left.counted.iter().any(|conn| core::ptr::eq(*conn, at.conn)) {
            at.conn.hand();
            left.counted.push(at.conn);
        }
    }
    Ok(left)
}

/// Returns true if a program may join this process's family.
fn may_join(inherited: &Descriptors) -> bool {
    let is_unlimited =
        |what| call::soft_limit(what).is_none_or(|limit| limit == libc::RLIM_INFINITY);
    process_slots::is_known()
        && family::base().is_some_and(is_free_in_programs)
        && inherited.len() <= CONNECTIONS_MAX
        && !may_ignore_environment()
        // The program must be able to map the segments, which are large.
        && is_unlimited(libc::RLIMIT_AS)
        // The kernel would answer the write of a larger file with a signal.
        && call::soft_limit(libc::RLIMIT_FSIZE).is_none_or(|limit| limit >= LEN as u64)
        // The program does not know which connections an epoll instance watches.
        && !inherits_epoll_sets()
}

/// Returns true if the program inherits an epoll instance.
fn inherits_epoll_sets() -> bool {
    let mut inherits = false;
    table::for_each_epoll(|fd, _| inherits |= outlasts_exec(fd));
    inherits
}

/// Leaves the program all connections that it can take over. Returns `None` if there are none.
fn pass(inherited: &Descriptors, is_command: bool) -> Option<JoinPreparation> {
    // The thread that would send combined bytes later ends with this program.
    stream::combine::before_waiting();
    let reserved = Reserved::new(family::expect()?)?;
    let slot = reserved.slot;
    let mut passed = Descriptors::new();
    for &(fd, at) in inherited {
        let is_again = || passed.iter().any(|(_, other)| other.same(at));
        if is_again() || may_be_held(at, slot) && may_pass(fd, at, is_command) {
            passed.push((fd, at));
        } else {
            process_slots::strike(&at.conn.references, slot);
        }
    }
    let left = JoinPreparation::new(&passed, is_command, &reserved);
    match left {
        Some(mut left) => {
            left.reserved = Some(reserved);
            Some(left)
        }
        None => {
            // Strike first. The next process in the slot must not count as a holder.
            passed.iter().for_each(|(_, at)| _ = process_slots::strike(&at.conn.references, slot));
            reserved.free();
            None
        }
    }
}

/// Adds the slot `slot` to the holders of a connection. Then no thread begins a step of the connection's rendezvous,
/// and this function waits until running steps are over. So the connection's phase stays as it is now. Returns false if
/// the connection has no room for another holder's name.
fn may_be_held(at: Ref, slot: usize) -> bool {
    let is_named = at.conn.is_generation(at.generation)
        && process_slots::add_if_room(&at.conn.references, slot);
    if is_named && at.conn.phase() == Phase::Eligible {
        match process::is_borrowed() {
            true => drop(rendezvous::StepLock::hold(at)),
            false => rendezvous::withdraw(at),
        }
    }
    is_named
}

/// Returns true if a program can take over a connection. `is_command` says that the program is the command `sovia`. The
/// program that this command executes may be one without the library, so a connection on a VI cannot go there.
fn may_pass(fd: i32, at: Ref, is_command: bool) -> bool {
    let conn = at.conn;
    let has_pair = || {
        let index = conn.pair.load(Ordering::Relaxed);
        pair::get(index).is_some_and(|pair| pair.passed(index).is_some())
    };
    conn.is_here()
        && conn.is_generation(at.generation)
        && conn.is_the_familys()
        && family::place_in_file(at.index).is_some()
        && match conn.phase() {
            Phase::Eligible => other_families::is_alone(fd, at),
            Phase::Attached => {
                !is_command
                    && !conn.has(OWN_PART)
                    && conn.loans.load(Ordering::Relaxed) == 0
                    && has_pair()
            }
            Phase::Plain | Phase::Free => false,
        }
}

impl JoinPreparation {
    /// Returns `None` if there is no connection to leave, or if a part of it cannot be left.
    fn new(passed: &Descriptors, is_command: bool, reserved: &Reserved) -> Option<JoinPreparation> {
        if passed.is_empty() {
            return None;
        }
        let locks = LocksToLeave::new(process::is_borrowed())?;
        let mut room = Room::new(LEN).ok()?;
        let data = data_of(&mut room[..LEN], passed, is_command, reserved, &locks)?;
        let made = Fd::keep(call::memfd_create(c"sovia-inheritance", libc::MFD_CLOEXEC).ok()?);
        if call::pwrite_both(made.raw(), data.bytes(), &[], 0) != Ok(LEN) {
            return None;
        }
        let number = call::fcntl(made.raw(), libc::F_DUPFD, NUMBERS.start as usize).ok()?;
        let file = Fd::keep(number as i32);
        let mut connections: SmallVec<[&'static Conn; 4]> = SmallVec::new();
        for (_, at) in passed {
            if !connections.iter().any(|conn| core::ptr::eq(*conn, at.conn)) {
                connections.push(at.conn);
            }
        }
        // Set this before the first descriptor stays open. A fork copies the descriptors before it copies this memory.
        HAS_LEFT.store(true, Ordering::SeqCst);
        let mut left = JoinPreparation {
            connections,
            kept: SmallVec::new(),
            reserved: None,
            _locks: locks,
            data: file,
        };
        let all_are_kept =
            NUMBERS.contains(&left.data.raw()) && data.descriptors().all(|fd| left.keep(fd));
        all_are_kept.then_some(left)
    }

    /// Makes the exec keep a descriptor. Returns false if the descriptor does not exist.
    fn keep(&mut self, fd: i32) -> bool {
        let is_kept = call::fcntl(fd, libc::F_SETFD, 0).is_ok();
        if is_kept {
            self.kept.push(fd);
        }
        is_kept
    }
}

/// Writes the data for the program to `bytes`. Returns `None` if the data has no room, or if a part of it is missing.
fn data_of<'b>(
    bytes: &'b mut [u8],
    passed: &Descriptors,
    is_command: bool,
    reserved: &Reserved,
    locks: &LocksToLeave,
) -> Option<Inheritance<'b>> {
    let records = reserved.records().raw();
    let (_, inode) = call::file_id(records).ok()?;
    let (mut pipe_ends, mut count) = ([-1; PIPE_ENDS_MAX], 0);
    peers::each_pipe_end(|fd| {
        if let Some(slot) = pipe_ends.get_mut(count) {
            *slot = fd;
        }
        count += 1;
    });
    let head = Head {
        pid: call::getpid(),
        build: build_number(),
        records: Passed { fd: records, inode },
        records_base: family::base()? as u64,
        locks: locks.passed(),
        slot: reserved.slot as u32,
        doorbells: pair::made_doorbells().map(|doorbell| doorbell.unwrap_or(-1)),
        pipe_ends,
    };
    let mut data = Inheritance::new(bytes, head);
    let mut segments: SmallVec<[u32; 4]> = SmallVec::new();
    for &(fd, at) in passed {
        let conn = at.conn;
        let is_attached = conn.is_attached();
        let index = conn.pair.load(Ordering::Relaxed);
        if is_attached && !segments.contains(&index) {
            segments.push(index);
            let segment = pair::get(index)?.passed(index)?;
            if !data.add_segment(segment) {
                return None;
            }
        }
        let is_added = data.add(Inherited {
            fd,
            is_attached,
            is_counted: is_command,
            index: at.index,
            generation: conn.generation(),
            cookie: conn.cookie.load(Ordering::Relaxed),
        });
        if !is_added {
            return None;
        }
    }
    (count <= PIPE_ENDS_MAX).then_some(data)
}

/// Returns a number of this build of the library. Another build may have another layout of the shared memory.
pub(super) fn build_number() -> u64 {
    let number = build::number().unwrap_or_default();
    number.iter().fold(0, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl ExecPreparation {
    /// Returns true if the program takes over the connection.
    pub(super) fn passes(&self, conn: &Conn) -> bool {
        let passed = self.passed.iter().flat_map(|left| &left.connections);
        passed.into_iter().any(|other| core::ptr::eq(*other, conn))
    }
}

impl Drop for ExecPreparation {
    fn drop(&mut self) {
        self.counted.iter().for_each(|conn| conn.take_back());
    }
}

per_engine! {
    /// Set once a thread of this process has let an exec keep descriptors.
    static HAS_LEFT: AtomicBool = AtomicBool::new(false);
}

/// Returns true if descriptors may stay open for a program that another thread is executing. This is a thread of this
/// process, or of the process that has forked this one.
pub(super) fn may_be_leaving() -> bool {
    HAS_LEFT.load(Ordering::SeqCst)
}

/// Forgets the threads of the parent in a forked child.
pub(super) fn forked() {
    HAS_LEFT.store(false, Ordering::Relaxed);
}

impl Drop for JoinPreparation {
    fn drop(&mut self) {
        call::close_on_exec(&mut self.kept);
        let Some(reserved) = self.reserved.take() else { return };
        for conn in &self.connections {
            process_slots::strike(&conn.references, reserved.slot);
        }
        reserved.free();
    }
}
