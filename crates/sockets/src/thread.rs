//! Threads of the library, which the program does not notice.
//!
//! These threads must not keep a process alive that would have ended without them. They must not exist when the kernel
//! expects a process with one thread. So this module records the threads. The library can stop them ([`stop`]), and
//! they end when they find that the program's threads have ended ([`are_alone`]).

use crate::per_engine::Inherited;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering, fence};
pub(crate) use sovia_sync::OncePerProcess;
use sovia_sync::hazard::User;
use sovia_sync::thread;
use sovia_sys::{call, process};

/// Function that a thread of the library runs.
pub(crate) type Main = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Stack sizes of a thread, in bytes. The program's thread-local storage is part of the stack. If the first size is too
/// small for it, the next one is tried.
const STACKS: [usize; 3] = [256 << 10, 2 << 20, 16 << 20];

/// Record of a thread.
struct Place {
    /// Id of the thread; 0 for a free record, `TAKEN` for a thread that has not begun.
    id: AtomicI32,
    /// The function that the thread runs, and its argument.
    main: AtomicUsize,
    argument: AtomicUsize,
    engine: Inherited,
    /// Set if the thread ends when told.
    is_told: AtomicBool,
    /// Id and robust-list entry of the last thread that has left this record. The kernel lists such a thread for a
    /// while.
    last: AtomicI32,
    last_user: AtomicU32,
}

impl Place {
    /// Returns true if thread `id` has this record.
    fn is_of(&self, id: i32) -> bool {
        self.id.load(Ordering::Acquire) == id
    }

    /// Returns true if thread `id` has left this record and the kernel has not ended it yet.
    fn was_of(&self, id: i32) -> bool {
        // A thread of the program may have the id of a thread that has ended.
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

/// Number of the library's own threads in a process. A process of the unit tests has many engines, each with its own
/// threads.
const THREADS: usize = if cfg!(test) { 256 } else { 16 };

static RUNNING: [Place; THREADS] = [const {
    Place {
        id: AtomicI32::new(0),
        main: AtomicUsize::new(0),
        argument: AtomicUsize::new(0),
        engine: Inherited::new(),
        is_told: AtomicBool::new(false),
        last: AtomicI32::new(0),
        last_user: AtomicU32::new(0),
    }
}; THREADS];
const TAKEN: i32 = -1;

/// Determines when a thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// The thread ends after a nudge, when it finds that it [`must_end`], or soon by itself.
    WhenTold,
    /// The thread ends with its work, which may take as long as another process likes, or with the process.
    ByItself,
}

/// Number of looks in a row after which a sleeping thread counts as held up by another process. A lock of the kernel
/// may also make it sleep, but for a shorter time.
const HELD_UP: u32 = 2000;

/// Set if the kernel or libc has refused to start a thread.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// Set once a thread has been started, here or in a process that this one is a copy of.
static BEEN: AtomicBool = AtomicBool::new(false);
/// Set while all threads must end and none may be started.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Set once a thread of the program has left in a way after which only the library's threads may remain.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Starts a thread that the program does not notice. Returns false if no thread can be started.
///
/// Does nothing in a handler of the program: a new thread needs malloc, which the handler may have interrupted.
pub(crate) fn start(main: Main, argument: *mut libc::c_void, ends: Ends) -> bool {
    if sovia_signal::chain::is_in_handler() {
        return false;
    }
    // The program's handlers do not run on the new thread, nor here: a handler might wait for the thread's record.
    process::without_signals(|| start_in_place(main, argument, ends))
}

fn start_in_place(main: Main, argument: *mut libc::c_void, ends: Ends) -> bool {
    let own = call::getpid();
    let takes = |place: &Place| {
        // The last thread keeps its record until the kernel has ended it.
        let last = place.last.load(Ordering::Acquire);
        let is_left = last == 0 || !call::is_thread_of(own, last);
        let (order, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        is_left && place.id.compare_exchange(0, TAKEN, order, failed).is_ok()
    };
    let Some(free) = RUNNING.iter().position(takes) else { return false };
    let place = &RUNNING[free];
    // A thread in `stop` waits for this record, or this load sees its flag.
    if STOPPED.load(Ordering::SeqCst) {
        place.id.store(0, Ordering::Release);
        return false;
    }
    place.main.store(main as usize, Ordering::Relaxed);
    place.argument.store(argument as usize, Ordering::Relaxed);
    place.engine.leave();
    place.is_told.store(ends == Ends::WhenTold, Ordering::Relaxed);
    BEEN.store(true, Ordering::Relaxed);
    let started = create(free);
    REFUSED.store(!started, Ordering::Relaxed);
    if !started {
        place.id.store(0, Ordering::Release);
    }
    started
}

/// Returns true if the last attempt to start a thread failed.
pub(crate) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

fn create(place: usize) -> bool {
    let argument = place as *mut libc::c_void;
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

extern "C" fn begin(place: *mut libc::c_void) -> *mut libc::c_void {
    let place = &RUNNING[place as usize];
    let argument = place.argument.load(Ordering::Relaxed) as *mut libc::c_void;
    // SAFETY: `start_in_place` has stored a function of this type before it created the thread.
    let main = unsafe { core::mem::transmute::<usize, Main>(place.main.load(Ordering::Relaxed)) };
    place.id.store(thread::thread_id(), Ordering::Release);
    place.engine.take();
    let result = main(argument);
    place.last_user.store(User::me().word(), Ordering::Relaxed);
    place.last.store(place.id.load(Ordering::Relaxed), Ordering::Release);
    place.id.store(0, Ordering::Release);
    result
}

/// Returns true if libc may have learnt from one of these threads that the process has several.
pub(crate) fn have_been() -> bool {
    BEEN.load(Ordering::Relaxed)
}

/// Returns the number of the library's threads.
pub(crate) fn count() -> usize {
    RUNNING.iter().filter(|place| place.id.load(Ordering::Acquire) != 0).count()
}

/// Clears the records in a forked child: the threads have stayed in the parent.
pub(crate) fn forked() {
    for place in &RUNNING {
        place.id.store(0, Ordering::Relaxed);
        place.last.store(0, Ordering::Relaxed);
    }
    STOPPED.store(false, Ordering::Relaxed);
    LEFT.store(false, Ordering::Relaxed);
}

/// Returns true if every running thread ends when told.
pub(crate) fn all_end_when_told() -> bool {
    let is_running = |place: &&Place| place.id.load(Ordering::Acquire) != 0;
    RUNNING.iter().filter(is_running).all(|place| place.is_told.load(Ordering::Relaxed))
}

/// Returns true if the library's threads must end.
pub(crate) fn must_end() -> bool {
    STOPPED.load(Ordering::Acquire)
}

/// Makes all threads end, wakes them by `nudge`, and returns once the kernel lists none of them. No thread is started
/// until [`resume`]. Returns false without a change if a thread that ends by itself sleeps.
pub(crate) fn stop(nudge: impl Fn()) -> bool {
    STOPPED.store(true, Ordering::SeqCst);
    // Before the nudge: the kernel still lists a thread for a while after it has left its record.
    let running = RUNNING.each_ref().map(Place::begun);
    let leaving = RUNNING.each_ref().map(|place| place.last.load(Ordering::Acquire));
    let own = call::getpid();
    for (&id, place) in running.iter().zip(&RUNNING) {
        let is_told = place.is_told.load(Ordering::Relaxed);
        let mut asleep = 0;
        while id != 0 && !is_told && call::is_thread_of(own, id) {
            // A thread that has left its record is not held up any more.
            let is_asleep = call::is_asleep(id) && place.is_of(id);
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
    for (id, place) in leaving.into_iter().zip(&RUNNING) {
        while id != 0 && call::is_thread_of(own, id) && place.was_of(id) {
            call::sched_yield();
        }
    }
    true
}

/// Like [`stop`], but for threads that end when told. Returns false without a change if one of them is held up.
pub(crate) fn stop_soon(nudge: impl Fn()) -> bool {
    STOPPED.store(true, Ordering::SeqCst);
    let running = RUNNING.each_ref().map(Place::begun);
    let leaving = RUNNING.each_ref().map(|place| place.last.load(Ordering::Acquire));
    let own = call::getpid();
    nudge();
    let (mut looks, mut asleep) = (0, 0);
    let mut is_there = |id: i32| {
        if id == 0 || !call::is_thread_of(own, id) {
            return Some(false);
        }
        call::sched_yield();
        looks += 1;
        // A thread may wait for another process for any time. Most threads have ended long before this check.
        let may_be_held_up = looks > HELD_UP && call::is_asleep(id);
        asleep = if may_be_held_up { asleep + 1 } else { 0 };
        (asleep < HELD_UP).then_some(true)
    };
    for ((id, last), place) in running.into_iter().zip(leaving).zip(&RUNNING) {
        loop {
            match is_there(id).zip(is_there(last)) {
                None => {
                    resume();
                    return false;
                }
                Some((false, there)) if !there || !place.was_of(last) => break,
                Some(_) => {}
            }
        }
    }
    true
}

/// Records that the threads have ended, or that the last one is about to. Each is started again when it is needed.
pub(crate) fn ended() {
    thread::none_left();
    // SYNC: pairs with the fence in `kernel_sockets::watch_new`. Either `watch_new` sees that the thread has ended, or
    // the thread sees the new connection.
    fence(Ordering::SeqCst);
}

/// Begins the end of the process: no thread is started, and each thread that ends when told ends at its next nudge.
pub(crate) fn end() {
    STOPPED.store(true, Ordering::SeqCst);
}

/// Allows the threads to be started again.
pub(crate) fn resume() {
    STOPPED.store(false, Ordering::SeqCst);
}

/// Called before a thread of the program leaves without libc's notice, or leaves first and the process continues.
pub(crate) fn leaving() {
    LEFT.store(true, Ordering::SeqCst);
}

/// Returns true if the threads must check from time to time whether the program's threads have all gone.
pub(crate) fn may_be_alone() -> bool {
    LEFT.load(Ordering::Acquire)
}

/// Returns the number of threads of the process, except `but`, for which `is_own` returns false with every record.
/// `None` if the kernel does not list the threads.
fn others(but: i32, is_own: impl Fn(&Place, i32) -> bool) -> Option<usize> {
    let (mut others, own) = (0, call::getpid());
    let listed = call::each_thread(|id| {
        let is_ours = || RUNNING.iter().any(|place| is_own(place, id));
        // A thread that has ended since it was listed does not count.
        others += usize::from(id != but && !is_ours() && call::is_thread_of(own, id));
    });
    listed.then_some(others)
}

/// Returns the number of the library's threads that are about to begin.
fn starting() -> usize {
    RUNNING.iter().filter(|place| place.id.load(Ordering::Acquire) == TAKEN).count()
}

/// Counts the threads besides the calling one that neither have a record nor have just left one.
fn others_of_the_program() -> Option<usize> {
    others(call::gettid(), |place, id| place.is_of(id) || place.was_of(id))
}

/// Returns true if the calling thread is the program's only thread. Waits for threads of the library that are about to
/// begin.
pub(crate) fn is_single() -> bool {
    loop {
        let running = RUNNING.each_ref().map(Place::begun);
        let others = others_of_the_program();
        // A thread that has begun or ended meanwhile may have been listed without a record.
        if RUNNING.each_ref().map(Place::begun) == running {
            return others == Some(0);
        }
    }
}

/// Like [`is_single`], but never waits, for signal handlers: another thread may wait for the code that the handler has
/// interrupted. May return true wrongly in a program with several threads, while a thread of the library begins.
pub(crate) fn may_be_single() -> bool {
    others_of_the_program().is_some_and(|others| others <= starting())
}

/// Returns true if the process has only the library's threads. Returns false while its first thread exists.
pub(crate) fn are_alone() -> bool {
    let own = call::getpid();
    if call::task_exists(own) {
        return false;
    }
    LEFT.store(true, Ordering::Relaxed);
    // The kernel lists the first thread as long as any thread exists.
    others(own, Place::is_of) == Some(0) && starting() == 0
}
