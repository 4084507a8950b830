//! Prepares for a change of the process's user, groups, capabilities or namespaces.
//!
//! The process shares memory because each side could trace the other ([`crate::meeting`]). After the change this may no
//! longer hold. A worker that has given up its privileges must not be able to write memory of the process that forked
//! it. A process that drops its rights must not be able to write a peer's memory. So before the change the process
//! leaves everything shared, while its code is still trusted:
//!
//! - Every accelerated connection goes back to TCP, for all processes that hold it.
//! - Rendezvous are forgotten, and requests are withdrawn.
//! - Private memory replaces the segments at the same addresses. A thread that still reads a segment finds zeros, and
//!   gets no fault.
//! - New descriptors, which no other process has, replace all doorbells and the library's descriptors from the parent.
//! - New memory replaces the family's memory. Only children forked later share the new memory.
//!
//! The library's own threads end before the change, and start again with the next accelerated connection. After the
//! change the process begins anew, under another name (`pair::me`). Connections opened later are accelerated with peers
//! that the kernel's rule allows.

use crate::fallback::{self, Cause};
use crate::family::Retired;
use crate::ops::keep;
use crate::table::{self, Ref};
use crate::{
    closer, family, filters, handler, inheritance, kernel_sockets, meeting, members, pair, peers,
    pollset, process, sets, thread,
};
use core::cell::Cell;
use sovia_control::Reason;
use sovia_signal::chain;
use sovia_sync::fences;
use sovia_sys::{call, clock, fd, mapping};

thread_local! {
    /// Set while this thread is in a change. A signal handler on this thread may also change the user.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Leaves all shared memory and descriptors, then calls `change`, which changes the process's user or rights.
pub fn change<T>(change: impl FnOnce() -> T) -> T {
    leave_for(Cause::Credentials, change)
}

/// Leaves all shared memory and descriptors, then calls `limit`, which limits this process's address space.
pub fn limit_memory<T>(limit: impl FnOnce() -> T) -> T {
    leave_for(Cause::AddressSpace, limit)
}

fn leave_for<T>(cause: Cause, change: impl FnOnce() -> T) -> T {
    // A child of vfork runs on its parent's memory, and must not leave it for the parent.
    if process::is_elsewhere() || INSIDE.replace(true) {
        return change();
    }
    process::begin_change();
    let stopped = leave(cause);
    let result = change();
    if stopped {
        thread::resume();
    }
    closer::go_on();
    process::end_change();
    INSIDE.set(false);
    result
}

/// Leaves all shared memory and descriptors, then calls `confine`, which puts the process under a seccomp filter.
///
/// Only the program knows which calls its filter allows, perhaps only read, write and exit. So from then on the kernel
/// alone serves every descriptor. No thread of the library runs, and no hook makes a system call except the program's
/// own. Sovia keeps to this even if the kernel refuses the filter, because the program is about to try another one.
pub fn confine<T>(confine: impl FnOnce() -> T) -> T {
    leave_for_good(Cause::Filter, confine)
}

/// A call by which the calling thread gets its own table of descriptors. `with` makes the call as it is, `without`
/// without the request for a table.
///
/// If no other thread of the program has the table, only the library's threads share it. The library's threads must
/// continue to watch the table's descriptors. So `without` is called. Otherwise a number will mean different files in
/// different threads, so the process leaves everything, like [`confine`].
pub fn own_descriptors<T>(without: impl FnOnce() -> T, with: impl FnOnce() -> T) -> T {
    if process::is_confined() || process::is_elsewhere() {
        with()
    } else if thread::is_single() && !process::has_shared() {
        without()
    } else {
        leave_for_good(Cause::Table, with)
    }
}

fn leave_for_good<T>(cause: Cause, confine: impl FnOnce() -> T) -> T {
    // A child of vfork is about to execute another program, and its parent does not change.
    if process::is_confined() || process::is_elsewhere() || INSIDE.replace(true) {
        return confine();
    }
    process::begin_change();
    // First, so that nothing new is shared while the process leaves.
    process::confine();
    let attached = attached();
    leave(cause);
    await_waiting(&attached);
    drop_all(cause.reason());
    table::for_each_epoll(|epfd, _| {
        table::remove(epfd);
    });
    chain::put_nothing_off();
    fences::without_kernel();
    // The closer now closes the descriptors from other processes: no thread of the library does so later.
    thread::resume();
    closer::go_on();
    thread::stop(nudge);
    thread::end();
    let result = confine();
    process::end_change();
    INSIDE.set(false);
    result
}

/// Returns true if the library's threads have been stopped. The threads are not stopped while the closer's thread is
/// held up. Then libc changes its user together with the program's threads. The closer pauses from here on.
fn leave(cause: Cause) -> bool {
    closer::pause();
    meeting::leave_all();
    fallback_all(cause);
    let mut connections: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| connections.push((fd, at)));
    fallback::give(&connections, cause);
    if process::is_confined() {
        // While the entries are recorded.
        sets::leave_to_program();
    }
    // Not earlier: this process may hold the other end of a connection too.
    let stopped = thread::stop(nudge);
    if stopped {
        thread::ended();
    }
    // If the family's memory is a file, processes outside the family may have opened it.
    let is_shared = members::has_relatives() || family::is_in_a_file();
    let retired = if is_shared { drop_all(cause.reason()) } else { Vec::new() };
    sets::leave_doors();
    pair::leave_all(sets::forget_pair);
    peers::leave_all();
    handler::begin_anew();
    pair::renew_doors();
    pollset::begin_anew();
    mapping::leave_files();
    inheritance::forget();
    filters::leave();
    if is_shared {
        members::leave();
        family::leave(&retired);
    }
    table::for_each_inherited(|inherited| {
        fd::sever(inherited);
    });
    pair::begin_anew();
    stopped
}

/// Wakes the library's threads that end when told.
fn nudge() {
    kernel_sockets::ring();
    handler::nudge_all();
}

/// Returns the accelerated connections of this process.
fn attached() -> Vec<(i32, Ref)> {
    let mut attached: Vec<(i32, Ref)> = Vec::new();
    let mut note = |fd: i32, at: Ref| {
        if at.is_attached_here() && !attached.iter().any(|(_, a)| a.same(at)) {
            attached.push((fd, at));
        }
    };
    table::for_each_conn(&mut note);
    keep::each(&mut note);
    attached
}

/// Moves every accelerated connection of this process back to TCP.
fn fallback_all(cause: Cause) {
    loop {
        let attached = attached();
        if attached.is_empty() {
            return;
        }
        fallback::all(&attached, cause);
    }
}

/// Makes threads leave their waits in Sovia's calls, because the filter may apply to all threads. A thread that has
/// left such a wait by `longjmp` still counts, so the wait here has a limit.
fn await_waiting(connections: &[(i32, Ref)]) {
    const LONGEST_NS: u64 = 1_000_000_000;
    let begun = clock::now_ns();
    let is_awaited = || connections.iter().any(|(_, at)| at.conn.is_awaited());
    while (process::has_waiting() || is_awaited()) && clock::now_ns() - begun < LONGEST_NS {
        if chain::is_in_handler() {
            // The handler may have interrupted such a wait.
            return;
        }
        pair::ring_own();
        call::sched_yield();
    }
}

/// Stops recording every connection in this process. A connection that a relative also holds stays on TCP there.
fn drop_all(reason: Reason) -> Vec<Retired> {
    // A relative may have moved a connection back to TCP, and this process's sets may not know yet.
    sets::look_for_gone();
    let mut all: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| all.push((fd, at)));
    let mut retired: Vec<Retired> = Vec::new();
    for (fd, at) in all {
        let conn = at.conn;
        if !retired.iter().any(|one| one.index == at.index) {
            sets::conn_closed(at);
            // The process still has the socket, which the family no longer knows.
            conn.spread();
            if conn.stay_plain() {
                conn.count_stay(reason);
            }
            // If two processes let go at the same time, only the second one is the last.
            let locked = conn.lock();
            conn.let_go();
            let is_last = !family::is_shared(conn);
            drop(locked);
            retired.push(Retired { index: at.index, generation: at.generation, is_last });
        }
        table::remove(fd);
        table::release(at.index);
    }
    retired
}

/// Called before a fork: waits until no change is in progress. A thread that forks a relay during its own change does
/// not wait.
pub(crate) fn hold() {
    if !INSIDE.get() {
        process::begin_change();
    }
}

/// Called after a fork, in parent and child.
pub(crate) fn release() {
    if !INSIDE.get() {
        process::end_change();
    }
}
