//! Joins the family of the process that has executed this program, and takes over its connections.

use super::leave::build_number;
use crate::conn::Phase;
use crate::table::{self, Ref};
use crate::{fallback, family, kernel_sockets, pair, peers, process_slots, rendezvous};
use core::sync::atomic::Ordering;
use smallvec::SmallVec;
use sovia_control::inheritance::{Inheritance, Inherited, LEN, NUMBERS, Passed};
use sovia_sys::mapping::{Room, is_sealed_memory};
use sovia_sys::{Fd, call, diag};

/// Takes over the connections that the process which has executed this program has left, if there are any. Called at
/// the program's start.
pub(crate) fn join() {
    // Descriptors that the data of this program names.
    let mut own: SmallVec<[i32; 64]> = SmallVec::new();
    let numbers = numbers();
    let Some(mut room) = room_for(&numbers) else { return };
    for number in numbers {
        let Some(data) = read(number, &mut room[..LEN]) else { continue };
        // Close the data, even if it is for another program.
        drop(Fd::keep(number));
        let head = data.head();
        if !is_there(head.records) || !is_there(head.locks) {
            continue;
        }
        if head.pid != call::getpid() || !own.is_empty() {
            // A process was executing another program when one of its threads forked this process. Or two threads of
            // one process were each executing a program.
            data.descriptors().filter(|fd| !own.contains(fd)).for_each(|fd| drop(Fd::keep(fd)));
            let is_left = |one: &Inherited| one.is_attached && table::is_blank(one.fd);
            if head.pid == call::getpid() {
                data.each().filter(is_left).for_each(give_up);
            }
            continue;
        }
        own.extend(data.descriptors());
        call::close_on_exec(&mut own);
        if take(&data).is_some() {
            data.each().for_each(take_connection);
        } else {
            let are_closed = [head.records.fd, head.locks.fd];
            own.iter().filter(|fd| !are_closed.contains(fd)).for_each(|fd| drop(Fd::keep(*fd)));
            data.each().filter(|one| one.is_attached).for_each(give_up);
        }
    }
}

/// Makes a child not keep what a thread of its parent leaves to a program. Called in a forked child, and before a
/// child of `vfork` executes a program.
pub(super) fn forget_left() {
    let numbers = numbers();
    let Some(mut room) = room_for(&numbers) else { return };
    for number in numbers {
        let Some(data) = read(number, &mut room[..LEN]) else { continue };
        drop(Fd::keep(number));
        let records = data.head().records;
        if is_there(records) {
            // This child has other descriptors of the records. This one keeps the program's slot taken.
            drop(Fd::keep(records.fd));
        }
        for fd in data.descriptors().filter(|fd| *fd != records.fd) {
            let _ = call::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC as usize);
        }
    }
}

/// Takes the family's memory and the segments. Returns `None` if this is impossible. Closes the descriptors of the
/// family's memory and locks, or moves them to other numbers.
fn take(data: &Inheritance<'_>) -> Option<()> {
    let head = data.head();
    // Move the descriptors to numbers that the program does not use. This process has no lock of either file yet.
    let (records, locks) = (Fd::adopt(head.records.fd), Fd::adopt(head.locks.fd));
    if head.build != build_number() || !is_sealed_memory(records.raw(), family::FILE_LEN) {
        return None;
    }
    let base = usize::try_from(head.records_base).ok()?;
    if !family::join(records, base, head.slot, locks, head.locks.inode) {
        return None;
    }
    for (index, fd) in head.doorbells.into_iter().enumerate().filter(|(_, fd)| *fd >= 0) {
        pair::take_doorbell(index, Fd::inherit(fd));
    }
    for fd in head.pipe_ends.into_iter().filter(|fd| *fd >= 0) {
        peers::take_pipe_end(Fd::inherit(fd));
    }
    for segment in data.segments() {
        pair::take(segment);
    }
    sovia_signal::chain::guards();
    // Ask now, because the kernel takes long to answer once the process has several threads.
    sovia_sync::fences::find_out();
    rendezvous::history::start();
    kernel_sockets::took_over();
    Some(())
}

/// Makes a descriptor refer to its connection.
fn take_connection(there: Inherited) {
    let Some(conn) = family::conn(there.index) else { return };
    let at = Ref { index: there.index, generation: there.generation, conn };
    let is_known = table::references(there.index) != 0;
    let is_same = table::is_blank(there.fd)
        && diag::cookie(there.fd) == Ok(there.cookie)
        && conn.is_generation(there.generation);
    if !is_same {
        if !is_known {
            process_slots::strike_me(&conn.references);
        }
        return;
    }
    table::refer(there.fd, at);
    if is_known {
        return;
    }
    if there.is_counted {
        conn.take_back();
    }
    conn.approach.forget_stage();
    if conn.phase() == Phase::Attached {
        let (index, vi) = (conn.pair.load(Ordering::Relaxed), conn.vi.load(Ordering::Relaxed));
        if !pair::get(index).is_some_and(|pair| pair.occupy(vi, at)) {
            table::remove(there.fd);
            table::release(there.index);
            process_slots::strike_me(&conn.references);
            give_up(there);
        }
    }
}

/// Makes it visible to the program that bytes of a connection are lost, because this process cannot use its VI.
/// Relatives may still use the connection.
fn give_up(there: Inherited) {
    if diag::cookie(there.fd) == Ok(there.cookie) {
        fallback::replace_by_error(core::iter::once(there.fd));
    }
}

fn is_there(passed: Passed) -> bool {
    call::file_id(passed.fd).is_ok_and(|(_, inode)| inode == passed.inode)
}

/// Returns the numbers of the descriptors that may have data.
fn numbers() -> SmallVec<[i32; 4]> {
    // Another user's data may name memory that this user could write to.
    let may_have_data = |&number: &i32| {
        call::file_size(number) == Ok(LEN as u64)
            && call::file_owner(number) == Ok(call::geteuid())
            && call::file_system(number) == Ok(libc::TMPFS_MAGIC)
    };
    NUMBERS.filter(may_have_data).collect()
}

/// Maps memory for the data at the descriptors `numbers`, unless there are none. Most programs have inherited none.
fn room_for(numbers: &[i32]) -> Option<Room> {
    if numbers.is_empty() { None } else { Room::new(LEN).ok() }
}

/// Reads the data at this descriptor number into `bytes`. Returns `None` if there is none.
fn read(number: i32, bytes: &mut [u8]) -> Option<Inheritance<'_>> {
    (call::pread(number, bytes, 0) == Ok(LEN)).then(|| Inheritance::decode(bytes)).flatten()
}
