//! Prepares for a change of the process's user, groups, capabilities or namespaces.
//!
//! Processes share memory because each could trace the other ([`crate::rendezvous`]). After the change this may no
//! longer hold. A worker that has given up its privileges must not be able to write memory of the process that
//! forked it, or of a peer. So before the change, while its code is still trusted, the process stops sharing:
//!
//! - Every accelerated connection goes back to TCP, for all processes that hold it.
//! - Rendezvous are forgotten, and requests are withdrawn.
//! - Private memory replaces the segments at the same addresses. A thread that still reads a segment finds zeros,
//!   and gets no fault.
//! - New descriptors replace all doorbells, and the descriptors that the library inherited from the parent. No
//!   other process has the new descriptors.
//! - New memory replaces the family's memory. Only children forked later share the new memory.
//!
//! The library's own threads end before the change, and start again with the next accelerated connection. After the
//! change the process has another name for its peers (`pair::me`). Connections opened later are accelerated with
//! peers that the kernel's rule for tracing allows.

use crate::fallback::{self, Cause};
use crate::family::Retired;
use crate::ops::keep;
use crate::table::{self, Ref};
use crate::{
    closer, epoll_sets, family, filters, handler, kernel_sockets, other_families, pair, peers,
    pollset, process, process_slots, rendezvous, thread,
};
use core::cell::Cell;
use sovia_control::Reason;
use sovia_signal::chain;
use sovia_sync::fences;
use sovia_sys::{call, clock, fd, mapping};

thread_local! {
    /// Set while this thread is in a change. The flag detects another change by a signal handler on this thread.
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
    // A child of vfork runs on its parent's memory, and must not replace this memory.
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

/// Leaves all shared memory and descriptors, then calls `call`, which puts the process under a seccomp filter.
///
/// Only the program knows which calls its filter allows, perhaps only read, write and exit. So from now on the
/// kernel alone serves every descriptor. No thread of the library runs, and hooks make only the program's own
/// system calls. This also holds if the kernel refuses the filter, because the program is about to try another
/// filter.
pub fn enter_seccomp<T>(call: impl FnOnce() -> T) -> T {
    leave_for_good(Cause::Filter, call)
}

/// Makes a call that gives the calling thread its own table of descriptors. `with` makes the whole call, and
/// `without` makes the call without the new table.
///
/// If the program has one thread, the old table is shared only with the library's threads. The library's threads
/// must continue to watch the program's descriptors, so `without` is called. If the program has several threads, a
/// descriptor number will mean different files in different threads. So the process stops sharing for good, like
/// with [`enter_seccomp`].
pub fn own_descriptors<T>(without: impl FnOnce() -> T, with: impl FnOnce() -> T) -> T {
    if process::is_under_seccomp() || process::is_elsewhere() {
        with()
    } else if thread::is_single() && !process::has_shared() {
        without()
    } else {
        leave_for_good(Cause::Table, with)
    }
}

fn leave_for_good<T>(cause: Cause, call: impl FnOnce() -> T) -> T {
    // A child of vfork is about to execute another program. Its call does not change the parent.
    if process::is_under_seccomp() || process::is_elsewhere() || INSIDE.replace(true) {
        return call();
    }
    process::begin_change();
    // Call this first, so that nothing new is shared while the process leaves shared memory.
    process::enter_seccomp();
    let attached = attached();
    leave(cause);
    await_waiting(&attached);
    drop_all(cause.reason());
    table::for_each_epoll(|epfd, _| {
        table::remove(epfd);
    });
    chain::put_nothing_off();
    fences::without_kernel();
    // Make the closer close the descriptors from unknown processes now, because no thread of the library can do so
    // later.
    thread::resume();
    closer::go_on();
    thread::stop(nudge);
    thread::end();
    let result = call();
    process::end_change();
    INSIDE.set(false);
    result
}

/// Stops sharing, and pauses the closer. Returns true if the library's threads have been stopped. The threads are
/// not stopped while another process blocks the closer's thread. Then libc changes the user of the closer's thread
/// together with the program's threads.
fn leave(cause: Cause) -> bool {
    closer::pause();
    rendezvous::leave_all();
    fallback_all(cause);
    if process::is_under_seccomp() {
        // Call this while the table still has the entries.
        epoll_sets::leave_to_program();
    }
    // Stop the threads only after the fallback, because this process may also hold the other end of a connection.
    let stopped = thread::stop(nudge);
    if stopped {
        thread::ended();
    }
    // A connection that another thread recorded after `drop_all` would lose its record with the memory.
    process::begin_leaving(cause.reason());
    // Leave the family's memory if it lies in a file, because processes outside the family may have opened the
    // file.
    let is_shared = process_slots::has_relatives() || family::is_in_a_file();
    let retired = if is_shared { drop_all(cause.reason()) } else { Vec::new() };
    epoll_sets::remove_doorbells();
    pair::leave_all(epoll_sets::forget_pair);
    peers::leave_all();
    handler::begin_anew();
    pair::renew_doorbells();
    pollset::begin_anew();
    mapping::leave_files();
    other_families::forget();
    filters::leave();
    if is_shared {
        process_slots::leave();
        family::leave(&retired);
    }
    process::end_leaving();
    table::for_each_inherited(|inherited| {
        fd::sever(inherited);
    });
    pair::begin_anew();
    stopped
}

/// Wakes the library's threads, so that they see that they must end.
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

/// Waits until threads have left their waits in Sovia's calls, because the filter may apply to all threads. A
/// thread that has left a wait by `longjmp` still counts as waiting, so the time here is limited.
fn await_waiting(connections: &[(i32, Ref)]) {
    const LONGEST_NS: u64 = 1_000_000_000;
    let begun = clock::now_ns();
    let is_awaited = || connections.iter().any(|(_, at)| at.conn.is_awaited());
    while (process::has_waiting() || is_awaited()) && clock::now_ns() - begun < LONGEST_NS {
        if chain::is_in_handler() {
            // The handler may have interrupted a wait on its own thread, which cannot end now.
            return;
        }
        pair::ring_own();
        call::sched_yield();
    }
}

/// Removes every connection from this process's tables. If a forked relative also holds a connection, the
/// connection stays on TCP there.
fn drop_all(reason: Reason) -> Vec<Retired> {
    // A forked relative may have moved a connection back to TCP, and this process's epoll sets may not have noticed
    // yet.
    epoll_sets::look_for_gone();
    let mut all: Vec<(i32, Ref)> = Vec::new();
    table::for_each_conn(|fd, at| all.push((fd, at)));
    let mut retired: Vec<Retired> = Vec::new();
    for (fd, at) in all {
        let conn = at.conn;
        if !retired.iter().any(|one| one.index == at.index) {
            epoll_sets::conn_closed(at);
            // This process keeps the socket, but the family no longer knows that it does.
            conn.spread();
            if conn.stay_plain() {
                conn.count_stay(reason);
            }
            // Take the lock. If two processes let go at the same time, only the second process is the last holder.
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

/// Waits until no change of credentials is in progress. Called before a fork. A thread that forks a relay during
/// its own change does not wait.
pub(crate) fn hold() {
    if !INSIDE.get() {
        process::begin_change();
    }
}

/// Allows changes of credentials again. Called after a fork, in parent and child.
pub(crate) fn release() {
    if !INSIDE.get() {
        process::end_change();
    }
}
