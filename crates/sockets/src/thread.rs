//! Threads of the library, which the program does not notice.
//!
//! These threads must not keep a process alive that would have ended without them. No such thread must exist when
//! the kernel expects a process with one thread. So this module keeps a record of each thread. The library can stop
//! the threads ([`stop`]). The threads also end when they find that the program's threads have ended
//! ([`are_alone`]).

use crate::per_engine::Inherited;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering, fence};
pub(crate) use sovia_sync::OncePerProcess;
use sovia_sync::hazard::User;
use sovia_sync::thread;
use sovia_sys::{call, process};

/// Function that a thread of the library runs.
pub(crate) type Main = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Stack sizes of a thread, in bytes. The program's thread-local storage is part of the stack. If the first size is
/// too small for this storage, the next size is tried.
const STACKS: [usize; 3] = [256 << 10, 2 << 20, 16 << 20];

/// Record of one of the library's threads.
struct ThreadRecord {
    /// Id of the thread. 0 for a free record, `TAKEN` for a thread that has not begun to run.
    id: AtomicI32,
    /// The function that the thread runs, and its argument.
    main: AtomicUsize,
    argument: AtomicUsize,
    engine: Inherited,
    /// Set if the thread ends with [`Ends::OnRequest`].
    ends_on_request: AtomicBool,
    /// Id and robust-list entry of the last thread that has left this record. The kernel still lists such a thread
    /// for a while.
    last: AtomicI32,
    last_user: AtomicU32,
}

impl ThreadRecord {
    /// Returns true if thread `id` has this record.
    fn is_of(&self, id: i32) -> bool {
        self.id.load(Ordering::Acquire) == id
    }

    /// Returns true if thread `id` has left this record and the kernel has not ended it yet.
    fn was_of(&self, id: i32) -> bool {
        // Check more than the id. A thread of the program may have the id of a thread that has ended.
        self.last.load(Ordering::Acquire) == id
            && (User::from_word(self.last_user.load(Ordering::Relaxed)).lives()
                || call::is_exiting(id))
    }

    /// Returns the id of the record's thread, after the thread has begun; 0 if the record is free.
    fn begun(&self) -> i32 {
        loop {
            match self.id.load(Ordering::SeqCst) {
                TAKEN => call::sched_yield(),
                id => return id,
            };
        }
    }
}

/// Largest number of the library's own threads in a process. A process of the unit tests has many engines, each
/// with its own threads.
const THREADS: usize = if cfg!(test) { 256 } else { 16 };

static RUNNING: [ThreadRecord; THREADS] = [const {
    ThreadRecord {
        id: AtomicI32::new(0),
        main: AtomicUsize::new(0),
        argument: AtomicUsize::new(0),
        engine: Inherited::new(),
        ends_on_request: AtomicBool::new(false),
        last: AtomicI32::new(0),
        last_user: AtomicU32::new(0),
    }
}; THREADS];
const TAKEN: i32 = -1;

/// Determines when a thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The thread ends when another thread tells it to end: a nudge wakes the thread, and [`must_end`] returns
    /// true. The thread may also end by itself.
    OnRequest,
    /// The thread ends with its work, or with the process. Its work may wait for another process without a limit.
    ByItself,
}

/// Number of checks in a row that find a thread asleep, before the thread counts as blocked by another process. A
/// kernel lock may also make a thread sleep, but for fewer checks.
const HELD_UP: u32 = 2000;

/// Set if the kernel or libc has refused to start a thread.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// Set once a thread has been started, in this process or in an ancestor before the fork.
static BEEN: AtomicBool = AtomicBool::new(false);
/// Set while all threads must end and none may be started.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Set once a thread of the program has left in a way that may leave only the library's threads.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Starts a thread that the program does not notice. Returns false if no thread can be started.
///
/// Does nothing in a signal handler of the program, because a new thread needs malloc, which the handler may have
/// interrupted.
pub(crate) fn start(main: Main, argument: *mut libc::c_void, ends: Ends) -> bool {
    if sovia_signal::chain::is_in_handler() {
        return false;
    }
    // Block signals here and on the new thread. A handler of the program might wait for the thread's record.
    process::without_signals(|| start_in_place(main, argument, ends))
}

fn start_in_place(main: Main, argument: *mut libc::c_void, ends: Ends) -> bool {
    let own = call::getpid();
    let takes = |record: &ThreadRecord| {
        // Do not take a record while the kernel still lists its last thread.
        let last = record.last.load(Ordering::Acquire);
        let is_left = last == 0 || !call::is_thread_of(own, last);
        let (order, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        is_left && record.id.compare_exchange(0, TAKEN, order, failed).is_ok()
    };
    let Some(free) = RUNNING.iter().position(takes) else { return false };
    let record = &RUNNING[free];
    // SYNC: either `stop` sees this record as taken and waits, or this load sees the flag that `stop` has set.
    if STOPPED.load(Ordering::SeqCst) {
        record.id.store(0, Ordering::Release);
        return false;
    }
    record.main.store(main as usize, Ordering::Relaxed);
    record.argument.store(argument as usize, Ordering::Relaxed);
    record.engine.leave();
    record.ends_on_request.store(ends == Ends::OnRequest, Ordering::Relaxed);
    BEEN.store(true, Ordering::Relaxed);
    let started = create(free);
    REFUSED.store(!started, Ordering::Relaxed);
    if !started {
        record.id.store(0, Ordering::Release);
    }
    started
}

/// Returns true if the last attempt to start a thread failed.
pub(crate) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

fn create(record: usize) -> bool {
    let argument = record as *mut libc::c_void;
    // SAFETY: `attributes` and `thread` are local, and `pthread_attr_init` initialises `attributes` first. The argument
    // of `begin` is an index, not a pointer.
    unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        let mut thread: libc::pthread_t = core::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let started = STACKS.into_iter().any(|stack| {
            libc::pthread_attr_setstacksize(&raw mut attributes, stack);
            libc::pthread_create(&raw mut thread, &raw const attributes, begin, argument) == 0
        });
        libc::pthread_attr_destroy(&raw mut attributes);
        started
    }
}

extern "C" fn begin(record: *mut libc::c_void) -> *mut libc::c_void {
    let record = &RUNNING[record as usize];
    let argument = record.argument.load(Ordering::Relaxed) as *mut libc::c_void;
    // SAFETY: `start_in_place` has stored a function of this type before it created the thread.
    let main = unsafe { core::mem::transmute::<usize, Main>(record.main.load(Ordering::Relaxed)) };
    record.id.store(thread::thread_id(), Ordering::Release);
    record.engine.take();
    let result = main(argument);
    record.last_user.store(User::me().word(), Ordering::Relaxed);
    record.last.store(record.id.load(Ordering::Relaxed), Ordering::Release);
    record.id.store(0, Ordering::Release);
    result
}

/// Returns true if the library has ever started a thread. Then libc may treat the process as multithreaded.
pub(crate) fn have_been() -> bool {
    BEEN.load(Ordering::Relaxed)
}

/// Returns the number of the library's threads.
pub(crate) fn count() -> usize {
    RUNNING.iter().filter(|record| record.id.load(Ordering::Acquire) != 0).count()
}

/// Clears the records in a forked child. The threads exist only in the parent.
pub(crate) fn forked() {
    for record in &RUNNING {
        record.id.store(0, Ordering::Relaxed);
        record.last.store(0, Ordering::Relaxed);
    }
    STOPPED.store(false, Ordering::Relaxed);
    LEFT.store(false, Ordering::Relaxed);
}

/// Returns true if every running thread of the library has [`Ends::OnRequest`].
pub(crate) fn all_end_on_request() -> bool {
    let is_running = |record: &&ThreadRecord| record.id.load(Ordering::Acquire) != 0;
    RUNNING.iter().filter(is_running).all(|record| record.ends_on_request.load(Ordering::Relaxed))
}

/// Returns true if the library's threads must end.
pub(crate) fn must_end() -> bool {
    STOPPED.load(Ordering::Acquire)
}

/// Makes all threads of the library end, wakes them by `nudge`, and returns true once the kernel lists none of
/// them. No thread can be started until [`resume`]. If a thread with [`Ends::ByItself`] stays asleep, undoes the
/// stop and returns false.
pub(crate) fn stop(nudge: impl Fn()) -> bool {
    STOPPED.store(true, Ordering::SeqCst);
    // Read both lists before the nudge. The kernel still lists a thread for a while after the thread has left its
    // record.
    let running = RUNNING.each_ref().map(ThreadRecord::begun);
    let leaving = RUNNING.each_ref().map(|record| record.last.load(Ordering::Acquire));
    let own = call::getpid();
    for (&id, record) in running.iter().zip(&RUNNING) {
        let ends_on_request = record.ends_on_request.load(Ordering::Relaxed);
        let mut asleep = 0;
        while id != 0 && !ends_on_request && call::is_thread_of(own, id) {
            // Do not count a sleeping thread that has already left its record, because this thread is about to end.
            let is_asleep = call::is_asleep(id) && record.is_of(id);
            asleep = if is_asleep { asleep + 1 } else { 0 };
            if asleep == HELD_UP {
                resume();
                return false;
            }
            call::sched_yield();
        }
    }
    nudge();
    for id in running {
        while id != 0 && call::is_thread_of(own, id) {
            call::sched_yield();
        }
    }
    for (id, record) in leaving.into_iter().zip(&RUNNING) {
        while id != 0 && call::is_thread_of(own, id) && record.was_of(id) {
            call::sched_yield();
        }
    }
    true
}

/// Like [`stop`], if all threads have [`Ends::OnRequest`]. If another process blocks one of them, undoes the stop
/// and returns false.
pub(crate) fn stop_soon(nudge: impl Fn()) -> bool {
    STOPPED.store(true, Ordering::SeqCst);
    let running = RUNNING.each_ref().map(ThreadRecord::begun);
    let leaving = RUNNING.each_ref().map(|record| record.last.load(Ordering::Acquire));
    let own = call::getpid();
    nudge();
    let (mut looks, mut asleep) = (0, 0);
    let mut is_there = |id: i32| {
        if id == 0 || !call::is_thread_of(own, id) {
            return Some(false);
        }
        call::sched_yield();
        looks += 1;
        // Check only after many looks, because most threads end long before. Another process may block a thread
        // without a time limit.
        let may_be_held_up = looks > HELD_UP && call::is_asleep(id);
        asleep = if may_be_held_up { asleep + 1 } else { 0 };
        (asleep < HELD_UP).then_some(true)
    };
    for ((id, last), record) in running.into_iter().zip(leaving).zip(&RUNNING) {
        loop {
            match is_there(id).zip(is_there(last)) {
                None => {
                    resume();
                    return false;
                }
                Some((false, there)) if !there || !record.was_of(last) => break,
                Some(_) => {}
            }
        }
    }
    true
}

/// Records that the library's threads have ended, or that the last of them is about to end. A thread is started
/// again when it is needed.
pub(crate) fn ended() {
    thread::none_left();
    // SYNC: pairs with the fence in `kernel_sockets::watch_new`. Either `watch_new` sees that the thread has ended, or
    // the thread sees the new connection.
    fence(Ordering::SeqCst);
}

/// Begins the end of the process. From now on no thread can be started, and threads with [`Ends::OnRequest`] end at
/// their next nudge.
pub(crate) fn end() {
    STOPPED.store(true, Ordering::SeqCst);
}

/// Allows the library's threads to be started again.
pub(crate) fn resume() {
    STOPPED.store(false, Ordering::SeqCst);
}

/// Records that a thread of the program leaves. Called if libc does not see this, or if the first thread leaves and
/// the process continues.
pub(crate) fn leaving() {
    LEFT.store(true, Ordering::SeqCst);
}

/// Returns true if the library's threads must check from time to time if the program's threads have all gone.
pub(crate) fn may_be_alone() -> bool {
    LEFT.load(Ordering::Acquire)
}

/// Returns the number of the process's threads for which no record satisfies `is_own`. Thread `but` does not count.
/// Returns a larger number if there are many threads, because the kernel takes long to list them. `None` if the kernel
/// does not list the threads.
fn others(but: i32, is_own: impl Fn(&ThreadRecord, i32) -> bool) -> Option<usize> {
    let count = call::thread_count();
    if count > 1 + RUNNING.len() {
        return Some(count);
    }
    let (mut others, own) = (0, call::getpid());
    let listed = call::each_thread(|id| {
        let is_ours = || RUNNING.iter().any(|record| is_own(record, id));
        // Do not count a thread that has ended since it was listed.
        others += usize::from(id != but && !is_ours() && call::is_thread_of(own, id));
    });
    listed.then_some(others)
}

/// Returns the number of the library's threads that were created but have not begun to run.
fn starting() -> usize {
    RUNNING.iter().filter(|record| record.id.load(Ordering::Acquire) == TAKEN).count()
}

/// Counts the program's threads except the calling one: those that neither have a record nor have just left a
/// record.
fn others_of_the_program() -> Option<usize> {
    others(call::gettid(), |record, id| record.is_of(id) || record.was_of(id))
}

/// Returns true if the calling thread is the program's only thread. Waits until threads of the library that are
/// being created have begun.
pub(crate) fn is_single() -> bool {
    loop {
        let running = RUNNING.each_ref().map(ThreadRecord::begun);
        let others = others_of_the_program();
        // Repeat if a thread has begun or ended meanwhile, because it may have been listed without a record.
        if RUNNING.each_ref().map(ThreadRecord::begun) == running {
            return others == Some(0);
        }
    }
}

/// Like [`is_single`], but never waits, so that signal handlers can call it. (Another thread may wait for the code
/// that a handler has interrupted.) While a thread of the library begins, the result may be true although the
/// program has several threads.
pub(crate) fn may_be_single() -> bool {
    others_of_the_program().is_some_and(|others| others <= starting())
}

/// Returns true if only the library's threads are left in the process. Returns false while the process's first
/// thread exists.
pub(crate) fn are_alone() -> bool {
    let own = call::getpid();
    if call::task_exists(own) {
        return false;
    }
    LEFT.store(true, Ordering::Relaxed);
    // Exclude the first thread, because the kernel lists it as long as any thread exists.
    others(own, ThreadRecord::is_of) == Some(0) && starting() == 0
}
