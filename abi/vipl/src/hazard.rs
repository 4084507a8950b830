//! Hazards: each thread announces the objects that it uses, so that no thread destroys an object in use.
//!
//! A thread that looks up an object first announces its place (a *hazard*), then checks that the object is there. A
//! thread that destroys an object first makes this check fail, then waits until no thread announces the place. For this
//! to be sound, each of the two threads must see what the other did first. That takes a full fence on both sides. Uses
//! are frequent and destruction is rare. So a using thread executes no fence: the destroying thread makes the kernel
//! execute the fence in all other threads (`membarrier`). If the kernel cannot do this, using threads execute the fence
//! themselves.
//!
//! A thread may use several objects at once, or enter again from a callback or signal handler, so it has a few words.
//! Further hazards, and threads whose thread-local values are gone, use a list under a lock.

use core::cell::Cell;
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, compiler_fence, fence};
use sovia_sys::{call, process};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Number of objects that a thread can use at once without a lock.
const WORDS: usize = 4;
/// Value of a word without a hazard.
const NOTHING: usize = 0;

/// Words of a thread. Records are never freed: an ended thread's record is given to another thread.
#[repr(align(64))]
struct Record {
    words: [AtomicUsize; WORDS],
    taken: AtomicBool,
    next: AtomicPtr<Record>,
}

/// All records, linked by `next`.
static RECORDS: AtomicPtr<Record> = AtomicPtr::new(core::ptr::null_mut());

/// Hazards that found no free word, with their threads.
static OVERFLOW: Mutex<Vec<(usize, Thread)>> = Mutex::new(Vec::new());

/// Identifies a living thread.
type Thread = usize;

fn this_thread() -> Thread {
    RECORD.with(|record| core::ptr::from_ref(record) as usize)
}

/// True if using threads must execute fences. The value is fixed before the first use.
static FENCES: AtomicBool = AtomicBool::new(true);

thread_local! {
    /// This thread's record. It has no destructor, so that an access costs one load.
    static RECORD: Cell<*const Record> = const { Cell::new(null()) };
    /// Gives the record back when the thread ends.
    static KEEPER: Keeper = const { Keeper };
}

struct Keeper;

impl Drop for Keeper {
    fn drop(&mut self) {
        let record = RECORD.replace(null());
        // SAFETY: the pointer is null or to a record, and records are never freed.
        if let Some(record) = unsafe { record.as_ref() } {
            record.taken.store(false, Ordering::Release);
        }
    }
}

/// An announced use of an object, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Hazard {
    place: usize,
    word: Option<&'static AtomicUsize>,
}

fn overflow() -> MutexGuard<'static, Vec<(usize, Thread)>> {
    OVERFLOW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Announces that this thread uses the object at `place`. A thread that destroys the object sees the announcement
/// before this thread's later loads.
#[inline]
pub(crate) fn publish(place: usize) -> Hazard {
    let record = RECORD.get();
    // SAFETY: the pointer is null or to this thread's record, which is never freed.
    let word = unsafe { record.as_ref() }.and_then(Record::free_word);
    let Some(word) = word else { return publish_slowly(place) };
    word.store(place, Ordering::Relaxed);
    if FENCES.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
    } else {
        // `wait_for` makes the kernel execute a full fence in this thread.
        compiler_fence(Ordering::SeqCst);
    }
    Hazard { place, word: Some(word) }
}

#[cold]
fn publish_slowly(place: usize) -> Hazard {
    if RECORD.get().is_null() && KEEPER.try_with(|_| ()).is_ok() {
        RECORD.set(claim());
        return publish(place);
    }
    // SYNC: a destroying thread takes this lock after it has made the check fail. Either that thread finds the place in
    // the list, or this thread's check, which follows the unlock, fails.
    overflow().push((place, this_thread()));
    Hazard { place, word: None }
}

impl Drop for Hazard {
    #[inline]
    fn drop(&mut self) {
        match self.word {
            Some(word) => word.store(NOTHING, Ordering::Release),
            None => {
                let mut list = overflow();
                if let Some(at) =
                    list.iter().position(|&entry| entry == (self.place, this_thread()))
                {
                    list.swap_remove(at);
                }
            }
        }
    }
}

impl Record {
    #[inline]
    fn free_word(&self) -> Option<&AtomicUsize> {
        self.words.iter().find(|word| word.load(Ordering::Relaxed) == NOTHING)
    }

    fn names(&self, place: usize) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Acquire) == place)
    }
}

fn records() -> impl Iterator<Item = &'static Record> {
    let mut next = RECORDS.load(Ordering::Acquire).cast_const();
    core::iter::from_fn(move || {
        // SAFETY: the pointer is null or to a record, which was complete when it was linked and is never freed.
        let record: &'static Record = unsafe { next.as_ref() }?;
        next = record.next.load(Ordering::Acquire);
        Some(record)
    })
}

/// Claims a free record for this thread, or makes one.
fn claim() -> *const Record {
    static SETTLED: Once = Once::new();
    SETTLED.call_once(|| {
        let works = process::enable_barrier() && process::barrier().is_ok();
        FENCES.store(!works, Ordering::SeqCst);
        // SAFETY: the handler only stores to atomics, which is async-signal-safe. If it cannot be registered, a forked
        // child may wait for threads that it does not have.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
    for record in records() {
        if !record.taken.swap(true, Ordering::Acquire) {
            return record;
        }
    }
    let record = Box::leak(Box::new(Record {
        words: Default::default(),
        taken: AtomicBool::new(true),
        next: AtomicPtr::default(),
    }));
    let mut first = RECORDS.load(Ordering::Relaxed);
    loop {
        record.next.store(first, Ordering::Relaxed);
        let linked =
            RECORDS.compare_exchange_weak(first, record, Ordering::Release, Ordering::Relaxed);
        match linked {
            Ok(_) => return record,
            Err(now) => first = now,
        }
    }
}

/// Clears other threads' hazards in a forked child, which has only one thread.
extern "C" fn after_fork() {
    let own = RECORD.get();
    for record in records().filter(|record| !core::ptr::eq(*record, own)) {
        record.words.iter().for_each(|word| word.store(NOTHING, Ordering::Relaxed));
        record.taken.store(false, Ordering::Relaxed);
    }
}

/// The calling thread itself uses the object: for example, a callback destroys the object for which a function of this
/// thread runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UsedByCaller;

/// Waits until no thread uses the object at `place`. Call this after later look-ups can no longer find the object.
///
/// # Errors
/// [`UsedByCaller`], without waiting.
pub(crate) fn wait_for(place: usize) -> Result<(), UsedByCaller> {
    fence(Ordering::SeqCst);
    if !FENCES.load(Ordering::SeqCst) && process::barrier().is_err() {
        // The barrier has worked before. Only a forked child in which the kernel forgot the registration could get
        // here.
        let _ = process::enable_barrier() && process::barrier().is_ok();
    }
    let own = RECORD.get();
    // SAFETY: the pointer is null or to this thread's record, which is never freed.
    let own = unsafe { own.as_ref() };
    if own.is_some_and(|own| own.names(place)) || overflow().contains(&(place, this_thread())) {
        return Err(UsedByCaller);
    }
    for record in records() {
        while record.names(place) {
            call::sched_yield();
        }
    }
    while overflow().iter().any(|&(used, _)| used == place) {
        call::sched_yield();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn wait_for_waits_for_other_threads_and_not_for_itself() {
        let (ready, is_ready) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let user = std::thread::spawn(move || {
            let hazard = publish(64);
            ready.send(()).unwrap();
            may_go.recv().unwrap();
            drop(hazard);
        });
        is_ready.recv().unwrap();
        assert_eq!(wait_for(128), Ok(()));
        let (done, is_done) = mpsc::channel();
        let waiter = std::thread::spawn(move || done.send(wait_for(64)).unwrap());
        assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err(), "it is in use");
        go.send(()).unwrap();
        assert_eq!(is_done.recv().unwrap(), Ok(()));
        user.join().unwrap();
        waiter.join().unwrap();
        let _own = publish(192);
        assert_eq!(wait_for(192), Err(UsedByCaller));
    }

    #[test]
    fn a_thread_may_use_many_things_at_once() {
        let all: Vec<_> = (1..20).map(|i| publish(i << 20)).collect();
        assert_eq!(wait_for(3 << 20), Err(UsedByCaller));
        assert_eq!(wait_for(19 << 20), Err(UsedByCaller));
        let waiter = std::thread::spawn(|| wait_for(19 << 20));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished(), "the last is in use, in the list");
        drop(all);
        assert_eq!(waiter.join().unwrap(), Ok(()));
    }

    #[test]
    fn records_are_used_again() {
        let one = || std::thread::spawn(|| drop(publish(1 << 30))).join().unwrap();
        one();
        let before = records().count();
        (0..50).for_each(|_| one());
        // Threads of other tests may have claimed records meanwhile.
        assert!(records().count() < before + 25);
    }
}
