//! Threads of the library's own, which the program does not notice.
//!
//! They must keep no process alive that would have ended without them, and must not be there when the
//! kernel asks for a process of one thread. So they are on record here, can be stopped
//! ([`stop`]), and end when they find themselves alone ([`are_alone`]).

use crate::per_engine::Inherited;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering, fence};
pub(crate) use sovia_sync::OncePerProcess;
use sovia_sync::hazard::User;
use sovia_sync::thread;
use sovia_sys::{call, process};

/// What a thread of the library runs.
pub(crate) type Main = extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// Stack of a thread, in bytes. The program's thread-local storage comes out of it: for a program that
/// has more than the first leaves room for, the next is taken.
const STACKS: [usize; 3] = [256 << 10, 2 << 20, 16 << 20];

/// A thread's place on record.
struct Place {
    /// Its id; 0 for a free place, `TAKEN` for a thread that has not begun.
    id: AtomicI32,
    /// What it runs, and with what.
    main: AtomicUsize,
    argument: AtomicUsize,
    engine: Inherited,
    /// Whether it ends when it is told to.
    is_told: AtomicBool,
    /// The id of the last one that has left the place, and how it is known: the kernel lists it for a while.
    last: AtomicI32,
    last_user: AtomicU32,
}

impl Place {
    /// Whether a thread has it.
    fn is_of(&self, id: i32) -> bool {
        self.id.load(Ordering::Acquire) == id
    }

    /// Whether a thread has left it that the kernel has not ended yet.
    fn was_of(&self, id: i32) -> bool {
        // A thread that the program has started may have the id of one that has ended.
        self.last.load(Ordering::Acquire) == id
            && (User::from_word(self.last_user.load(Ordering::Relaxed)).lives()
                || call::is_exiting(id))
    }

    /// The thread that has it, if one does, once that has begun.
    fn begun(&self) -> i32 {
        loop {
            match self.id.load(Ordering::SeqCst) {
                TAKEN => call::sched_yield(),
                id => return id,
            };
        }
    }
}

/// Number of the library's own threads in a process. In the unit tests it has many engines, each with threads of its own.
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

/// When a thread ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// When it is nudged and finds that it [`must_end`], or soon by itself.
    WhenTold,
    /// When its work is done, which may take as long as another process likes, or with the process.
    ByItself,
}

/// A thread that is asleep in so many looks in a row is held up by another process. A lock of the kernel may have it sleep as well, for
/// less.
const HELD_UP: u32 = 2000;

/// The kernel, or libc, has refused a thread.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// One has been started, here or in a process of which this one is a copy.
static BEEN: AtomicBool = AtomicBool::new(false);
/// None is to go on, and none to be started.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// A thread of the program's has left in a way after which the library's may be alone.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Starts a thread that the program does not notice. False if it cannot be had.
///
/// Not within a handler of the program: it may have interrupted malloc, which a new thread takes.
pub(crate) fn start(main: Main, argument: *mut libc::c_void, ends: Ends) -> bool {
    if sovia_signal::chain::is_in_handler() {
        return false;
    }
    // The program's handlers never run on the thread, nor here: one may wait until the thread has its place.
    process::without_signals(|| start_in_place(main, argument, ends))
}

fn start_in_place(main: Main, argument: *mut libc::c_void, ends: Ends) -> bool {
    let own = call::getpid();
    let takes = |place: &Place| {
        // The last one is known by its place until the kernel has ended it.
        let last = place.last.load(Ordering::Acquire);
        let is_left = last == 0 || !call::is_thread_of(own, last);
        let (order, failed) = (Ordering::SeqCst, Ordering::Relaxed);
        is_left && place.id.compare_exchange(0, TAKEN, order, failed).is_ok()
    };
    let Some(free) = RUNNING.iter().position(takes) else { return false };
    let place = &RUNNING[free];
    // A thread that stops them waits for this place, or is seen here.
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

/// Whether the last thread that was wanted could not be had.
pub(crate) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

fn create(place: usize) -> bool {
    let argument = place as *mut libc::c_void;
    // SAFETY: plain pthread calls on local, initialised objects.
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
    // SAFETY: `start` has stored a function of this type.
    let main = unsafe { core::mem::transmute::<usize, Main>(place.main.load(Ordering::Relaxed)) };
    place.id.store(thread::thread_id(), Ordering::Release);
    place.engine.take();
    let result = main(argument);
    place.last_user.store(User::me().word(), Ordering::Relaxed);
    place.last.store(place.id.load(Ordering::Relaxed), Ordering::Release);
    place.id.store(0, Ordering::Release);
    result
}

/// Whether libc may have learnt that the process has several threads by one of these.
pub(crate) fn have_been() -> bool {
    BEEN.load(Ordering::Relaxed)
}

/// How many there are.
pub(crate) fn count() -> usize {
    RUNNING.iter().filter(|place| place.id.load(Ordering::Acquire) != 0).count()
}

/// In a forked child: they have stayed with the parent.
pub(crate) fn forked() {
    for place in &RUNNING {
        place.id.store(0, Ordering::Relaxed);
        place.last.store(0, Ordering::Relaxed);
    }
    STOPPED.store(false, Ordering::Relaxed);
    LEFT.store(false, Ordering::Relaxed);
}

/// Returns true if none goes on for as long as another process likes.
pub(crate) fn all_end_when_told() -> bool {
    let is_running = |place: &&Place| place.id.load(Ordering::Acquire) != 0;
    RUNNING.iter().filter(is_running).all(|place| place.is_told.load(Ordering::Relaxed))
}

/// Whether the library's threads are to end.
pub(crate) fn must_end() -> bool {
    STOPPED.load(Ordering::Acquire)
}

/// Has them end, by `nudge`, and returns when the kernel knows none of them any more. None is started until
/// [`resume`]. False, and nothing has changed, if there is one that ends when it likes, and that sleeps.
pub(crate) fn stop(nudge: impl Fn()) -> bool {
    STOPPED.store(true, Ordering::SeqCst);
    // Before they are nudged: one that leaves its place is known to the kernel for a while.
    let running = RUNNING.each_ref().map(Place::begun);
    let leaving = RUNNING.each_ref().map(|place| place.last.load(Ordering::Acquire));
    let own = call::getpid();
    for (&id, place) in running.iter().zip(&RUNNING) {
        let is_told = place.is_told.load(Ordering::Relaxed);
        let mut asleep = 0;
        while id != 0 && !is_told && call::is_thread_of(own, id) {
            // On its way out nothing holds it up.
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

/// Does the same for threads that end when told, unless one of them is held up.
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
        // A thread may wait for another process, for as long as that likes. Most have ended long before that is asked.
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

/// They have ended, or the last of them is about to: each that is asked for is started again.
pub(crate) fn ended() {
    thread::none_left();
    // SYNC: with the one in `meeting::attach`: a thread that has ended is seen there, or the connection is
    // seen by the thread.
    fence(Ordering::SeqCst);
}

/// The process is to end: each that ends when told does so once it is nudged, and none is started.
pub(crate) fn end() {
    STOPPED.store(true, Ordering::SeqCst);
}

/// They may be started again.
pub(crate) fn resume() {
    STOPPED.store(false, Ordering::SeqCst);
}

/// The calling thread of the program's is about to leave past libc's notice, or is the first to leave
/// before its process does.
pub(crate) fn leaving() {
    LEFT.store(true, Ordering::SeqCst);
}

/// Whether to look from time to time if the program's threads have all gone.
pub(crate) fn may_be_alone() -> bool {
    LEFT.load(Ordering::Acquire)
}

/// How many threads of the process, besides the one called `but`, no place calls its own. `None` where the
/// kernel does not list them.
fn others(but: i32, is_own: impl Fn(&Place, i32) -> bool) -> Option<usize> {
    let (mut others, own) = (0, call::getpid());
    let listed = call::each_thread(|id| {
        let is_ours = || RUNNING.iter().any(|place| is_own(place, id));
        // A thread that has ended since it was listed does not count.
        others += usize::from(id != but && !is_ours() && call::is_thread_of(own, id));
    });
    listed.then_some(others)
}

/// How many of the library's threads are about to begin.
fn starting() -> usize {
    RUNNING.iter().filter(|place| place.id.load(Ordering::Acquire) == TAKEN).count()
}

/// Counts the threads besides the calling one that neither have a place nor have just left one.
fn others_of_the_program() -> Option<usize> {
    others(call::gettid(), |place, id| place.is_of(id) || place.was_of(id))
}

/// Whether the program has no thread but the calling one. Waits for threads of the library that are about to begin.
pub(crate) fn is_single() -> bool {
    loop {
        let running = RUNNING.each_ref().map(Place::begun);
        let others = others_of_the_program();
        // Threads that have begun or left meanwhile may have been listed without a place.
        if RUNNING.each_ref().map(Place::begun) == running {
            return others == Some(0);
        }
    }
}

/// Answers the same without waiting, as in a handler: what it has interrupted may be what another thread waits for. A wrong yes
/// may come in a program of several threads while one of the library begins.
pub(crate) fn may_be_single() -> bool {
    others_of_the_program().is_some_and(|others| others <= starting())
}

/// Whether the process has no threads but the library's. False while its first thread is there.
pub(crate) fn are_alone() -> bool {
    let own = call::getpid();
    if call::task_exists(own) {
        return false;
    }
    LEFT.store(true, Ordering::Relaxed);
    // The first thread is listed as long as any is there.
    others(own, Place::is_of) == Some(0) && starting() == 0
}
