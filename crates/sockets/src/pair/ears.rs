//! By what strangers ring.
//!
//! A doorbell is an eventfd, and all that have it have the same open file: a stranger could make it one that blocks whichever
//! process rings. So a stranger gets an *ear* instead, the reading end of a pipe in which a byte lies; the open file of the
//! writing end is this process's alone, and its children's. The stranger rings by taking the byte, in a call that never waits
//! ([`call::take_from_pipe`]). The kernel then tells every epoll instance in which the writing end lies, edge-triggered, that
//! something has changed.
//!
//! **No missed wake-up.** Before a thread announces its sleep it has a byte put there unless one is known to be ([`arm`]), and
//! one is known to be from when it was put there until an instance has been told of a ring ([`heard`]). So if there is none,
//! it has been taken since then, of which the thread's instance has an event that no thread has seen: it does not sleep.
//!
//! All strangers have the same ears. One that takes bytes for no reason wakes threads for no reason, for as long as it goes
//! on, and can do no more.

use super::doors::{self, EPOLLS};
use super::table::CHANGE;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_sys::{Fd, call, poll};
use via_shm::layout::DOORBELLS;

/// An ear: in the place of the doorbell of the same number.
#[derive(Debug)]
struct Ear {
    /// 0: it has not been made yet.
    writer: AtomicI32,
    reader: AtomicI32,
    /// [`ARMED`] if a byte is known to lie there, and how many events have been seen (the upper bits).
    state: AtomicU32,
}

const ARMED: u32 = 1;
const HEARD_ONE: u32 = 2;
/// Bytes that a ring takes at most.
const TAKEN: usize = 64;
/// As many as a page of the pipe has, so that there is room in it afterwards.
const PAGE: usize = 4096;

per_engine! {
    static EARS: [Ear; DOORBELLS] = [const {
        Ear { writer: AtomicI32::new(0), reader: AtomicI32::new(0), state: AtomicU32::new(0) }
    }; DOORBELLS];
}

/// User data of the first ear in epoll instances, and then of the others: no pointers, and unlikely as numbers.
const FIRST: u64 = 0xd5_0b1a_d00b_ea00;

/// Which ear an event of that user data is of, if it is one's.
#[inline]
pub(crate) fn of_event(data: u64) -> Option<u32> {
    let number = data.wrapping_sub(FIRST);
    (number < DOORBELLS as u64).then_some(number as u32)
}

fn ear(index: u32) -> &'static Ear {
    &EARS[index as usize % DOORBELLS]
}

/// The reading ends, to be handed to strangers; they are made when first asked for.
pub(crate) fn for_strangers() -> Option<[i32; DOORBELLS]> {
    let change = CHANGE.guard();
    let mut all = [0; DOORBELLS];
    for (ear, fd) in EARS.iter().zip(&mut all) {
        if ear.writer.load(Ordering::Acquire) == 0 {
            make(ear)?;
        }
        *fd = ear.reader.load(Ordering::Acquire);
    }
    drop(change);
    // Of threads that sleep already.
    doors::each_epoll(listen);
    Some(all)
}

fn make(ear: &Ear) -> Option<()> {
    let mut writer = None;
    let reader = Fd::make(|| {
        let [read, write] = call::pipe()?;
        writer = Some(write);
        Ok(read)
    });
    let (reader, writer) = (reader.ok()?, writer.map(Fd::adopt)?);
    if !reader.is_high() || !writer.is_high() {
        return None;
    }
    // Under a filter of system calls that lets no byte be taken, this process could ring no stranger.
    call::write(writer.raw(), &[0]).ok()?;
    call::take_from_pipe(reader.raw(), &mut [0; TAKEN]).ok()?;
    ear.state.store(0, Ordering::Relaxed);
    ear.reader.store(reader.into_raw(), Ordering::Release);
    ear.writer.store(writer.into_raw(), Ordering::Release);
    Some(())
}

/// Whether a descriptor is what a stranger hands over as its ear: the reading end of a pipe, by which nothing but a ring can be
/// done to the stranger, and whose closing takes no time.
pub(crate) fn is_ear(fd: &Fd) -> bool {
    crate::peers::is_end_of_pipe(fd.raw())
}

/// Rings a stranger.
pub(crate) fn ring(fd: &Fd) {
    let _ = call::take_from_pipe(fd.raw(), &mut [0; TAKEN]);
}

/// Has an epoll instance be told of rings at that ear, if there is one.
pub(crate) fn listen(epoll: i32, index: u32) {
    let writer = ear(index).writer.load(Ordering::Acquire);
    if writer != 0 {
        let events = (libc::EPOLLOUT | libc::EPOLLET) as u32;
        let data = FIRST + u64::from(index % DOORBELLS as u32);
        let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, writer, events, data);
    }
}

/// The instance is told no more.
pub(crate) fn leave(epoll: i32, index: u32) {
    let writer = ear(index).writer.load(Ordering::Acquire);
    if writer != 0 {
        let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, writer, 0, 0);
    }
}

/// An instance has been told of a ring at that ear.
pub(crate) fn heard(index: u32) {
    let next = |state: u32| Some((state & !ARMED).wrapping_add(HEARD_ONE));
    let _ = ear(index).state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, next);
}

/// The calling thread is about to announce a sleep in an instance that listens to that ear.
#[inline]
pub(crate) fn arm(index: u32) {
    let ear = ear(index);
    if ear.writer.load(Ordering::Acquire) != 0 && ear.state.load(Ordering::SeqCst) & ARMED == 0 {
        arm_anew(ear);
    }
}

#[cold]
fn arm_anew(ear: &Ear) {
    loop {
        let state = ear.state.load(Ordering::SeqCst);
        if state & ARMED != 0 {
            return;
        }
        // Before it is known: a thread that dies in between has put one byte too many there.
        if call::write(ear.writer.load(Ordering::Acquire), &[0]) == Err(call::Errno::EAGAIN) {
            let mut page = [0; PAGE];
            let _ = call::take_from_pipe(ear.reader.load(Ordering::Acquire), &mut page);
            continue;
        }
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        if ear.state.compare_exchange(state, state | ARMED, success, failure).is_ok() {
            return;
        }
        // A ring has been heard meanwhile, perhaps of that very byte.
    }
}

/// This process has no strangers any more. New ones get ears that the old ones do not have.
pub(super) fn renew() {
    for (index, ear) in EARS.iter().enumerate() {
        if ear.writer.load(Ordering::Acquire) == 0 {
            continue;
        }
        EPOLLS.with(|epolls| {
            let here = epolls.iter().filter(|(_, of, _)| *of as usize % DOORBELLS == index);
            here.for_each(|&(epoll, ..)| leave(epoll, index as u32));
        });
        for end in [&ear.writer, &ear.reader] {
            drop(Fd::keep(end.swap(0, Ordering::AcqRel)));
        }
    }
}
