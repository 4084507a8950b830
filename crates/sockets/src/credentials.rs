//! The process changes its user, its groups, its capabilities or its namespaces.
//!
//! What it shares was shared because each side could trace the other ([`crate::meeting`]). After the
//! change that may not hold any more: a worker that has given up its privileges must not keep a
//! writable byte of the process that forked it, nor a process that drops its rights one of its peers'.
//! So before the change everything is left, by code that is still trusted:
//!
//! - every accelerated connection goes back to TCP, for all processes that hold it;
//! - meetings are forgotten, and what was asked for is withdrawn;
//! - segments are replaced by private memory at the same addresses: a thread that still looks at one
//!   finds zeros, and no fault;
//! - the peers' doorbells, this process's own, which others have, and everything that it has inherited
//!   from its parent are replaced by descriptors that no other process has;
//! - the family's memory is replaced by new memory that only children forked later will share.
//!
//! The library's own threads end before the change, and start again with the next accelerated connection.
//! After it the process begins anew, under another name (`pair::me`): connections opened later
//! are accelerated with peers that the kernel's rule allows.

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
    /// Whether this thread is inside: a signal handler of it may change the user as well.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Leaves everything that is shared, and calls `change`, which changes the process's user or rights.
pub fn change<T>(change: impl FnOnce() -> T) -> T {
    leave_for(Cause::Credentials, change)
}

/// Leaves everything that is shared, and calls `limit`, which limits this process's address space.
pub fn limit_memory<T>(limit: impl FnOnce() -> T) -> T {
    leave_for(Cause::AddressSpace, limit)
}

fn leave_for<T>(cause: Cause, change: impl FnOnce() -> T) -> T {
    // A child of vfork runs on its parent's memory, which is its parent's to leave.
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

/// Leaves everything that is shared, and calls `confine`, which is to put the process under a filter of
/// system calls.
///
/// Only the program knows what its filter lets through: perhaps no more than read, write and exit. So
/// from then on every descriptor is the kernel's alone, no thread of the library's runs, and no hook makes
/// a system call but the program's own. If the kernel refuses the filter it stays like that: the program
/// is about to try another one.
pub fn confine<T>(confine: impl FnOnce() -> T) -> T {
    leave_for_good(Cause::Filter, confine)
}

/// A call by which the calling thread gets a table of descriptors of its own. `without` makes it without
/// that, `with` as it is.
///
/// If no other thread of the program's has the table, it is the thread's own but for the library's threads,
/// which go on watching what is in it. Otherwise a number means one thing in one thread and another in the
/// next from then on, so everything is left, as by [`confine`].
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
    // A child of vfork is about to become another program, and its parent stays as it is.
    if process::is_confined() || process::is_elsewhere() || INSIDE.replace(true) {
        return confine();
    }
    process::begin_change();
    // Before anything is left: nothing new comes in its place.
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
    // The closer finishes now what others have sent: no thread of the library does it later.
    thread::resume();
    closer::go_on();
    thread::stop(nudge);
    thread::end();
    let result = confine();
    process::end_change();
    INSIDE.set(false);
    result
}

/// Returns true if the library's threads have been stopped. They are not while one is held up that closes what others have sent; libc
/// changes its user with the program's other threads. The closer pauses from here on.
fn leave(cause: Cause) -> bool {
    closer::pause();
    meeting::leave_all();
    fallback_all(cause);
    let mut connections: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| connections.push((fd, at)));
    fallback::give(&connections, cause);
    if process::is_confined() {
        // While the entries are on record.
        sets::leave_to_program();
    }
    // Not before: the other end of a connection may be this process's.
    let stopped = thread::stop(nudge);
    if stopped {
        thread::ended();
    }
    // Where the family's memory is a file, programs that are not of the family may have opened it.
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

/// Wakes the library's threads that end when they are told to.
fn nudge() {
    kernel_sockets::ring();
    handler::nudge_all();
}

/// The accelerated connections of this process.
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

/// Takes every accelerated connection of this process back to TCP.
fn fallback_all(cause: Cause) {
    loop {
        let attached = attached();
        if attached.is_empty() {
            return;
        }
        fallback::all(&attached, cause);
    }
}

/// Has threads that wait in calls of Sovia's leave them: the filter may be for all threads. One that has
/// left such a wait by `longjmp` is counted still, and not waited for any longer.
fn await_waiting(connections: &[(i32, Ref)]) {
    const LONGEST_NS: u64 = 1_000_000_000;
    let begun = clock::now_ns();
    let is_awaited = || connections.iter().any(|(_, at)| at.conn.is_awaited());
    while (process::has_waiting() || is_awaited()) && clock::now_ns() - begun < LONGEST_NS {
        if chain::is_in_handler() {
            // It may have interrupted such a wait itself.
            return;
        }
        pair::ring_own();
        call::sched_yield();
    }
}

/// Takes every connection off the record, in this process. One that a relative holds as well stays on TCP there, too.
fn drop_all(reason: Reason) -> Vec<Retired> {
    // A relative may have taken one back, and this process not have come to its sets since.
    sets::look_for_gone();
    let mut all: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| all.push((fd, at)));
    let mut retired: Vec<Retired> = Vec::new();
    for (fd, at) in all {
        let conn = at.conn;
        if !retired.iter().any(|one| one.index == at.index) {
            sets::conn_closed(at);
            // It has the socket still, which the family does not know from here on.
            conn.spread();
            if conn.stay_plain() {
                conn.count_stay(reason);
            }
            // Of two processes that let go at the same time, the second one alone is the last.
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

/// Around fork: no change is under way, but for that of a thread which forks in the middle of it, for a
/// relay.
pub(crate) fn hold() {
    if !INSIDE.get() {
        process::begin_change();
    }
}

/// After fork, in both.
pub(crate) fn release() {
    if !INSIDE.get() {
        process::end_change();
    }
}
