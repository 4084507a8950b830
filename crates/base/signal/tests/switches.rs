//! A thread that goes on elsewhere from a handler by `swapcontext` is in that handler until this one has ended.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{SIGUSR1, c_int, ucontext_t};
use sovia_signal::chain;

const STACK: usize = 256 << 10;

/// The thread's contexts: of the test, of what is interrupted, of what the handler switches to.
#[derive(Clone, Copy)]
enum Which {
    Test,
    Interrupted,
    Other,
}

struct Shared<T>(UnsafeCell<T>);

// SAFETY: one thread uses it.
unsafe impl<T> Sync for Shared<T> {}

static CONTEXTS: Shared<MaybeUninit<[ucontext_t; 3]>> =
    Shared(UnsafeCell::new(MaybeUninit::uninit()));
static STACKS: Shared<[[u8; STACK]; 3]> = Shared(UnsafeCell::new([[0; STACK]; 3]));

/// Where the thread has been in a handler, and where not, in order: one bit each, below a first one.
static SEEN: AtomicUsize = AtomicUsize::new(1);

fn look() {
    let seen = SEEN.load(Ordering::Relaxed);
    SEEN.store(seen << 1 | usize::from(chain::is_in_handler()), Ordering::Relaxed);
}

fn context(which: Which) -> *mut ucontext_t {
    CONTEXTS.0.get().cast::<ucontext_t>().wrapping_add(which as usize)
}

/// What the hook does, and then libc.
fn switch(from: Which, to: Which) {
    chain::switches();
    // SAFETY: both are contexts of this thread; what `to` was left at is still there.
    unsafe { libc::swapcontext(context(from), context(to)) };
}

fn begin(which: Which, stack: usize, main: extern "C" fn()) {
    // SAFETY: a context of its own, on a stack that no other one uses.
    unsafe {
        libc::getcontext(context(which));
        (*context(which)).uc_stack.ss_sp = STACKS.0.get().cast::<u8>().add(stack * STACK).cast();
        (*context(which)).uc_stack.ss_size = STACK;
        (*context(which)).uc_link = context(Which::Test);
        libc::makecontext(context(which), main, 0);
    }
}

extern "C" fn handler(_signal: c_int) {
    look();
    switch(Which::Interrupted, Which::Other);
    look();
}

extern "C" fn is_interrupted() {
    // SAFETY: a signal that has a handler.
    unsafe { libc::raise(SIGUSR1) };
    look();
}

extern "C" fn goes_on() {
    look();
    switch(Which::Other, Which::Interrupted);
}

extern "C" fn goes_on_in_a_handler() {
    let second: extern "C" fn(c_int) = goes_back;
    handle(second);
    is_interrupted();
}

extern "C" fn goes_back(_signal: c_int) {
    look();
    switch(Which::Other, Which::Interrupted);
}

#[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
fn handle(handler: extern "C" fn(c_int)) {
    chain::start(libc::sigaction);
    // SAFETY: plain data.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_NODEFER;
    assert!(chain::change(SIGUSR1, Some(&action), None, false));
}

/// On stacks of these numbers, the higher of which lies higher in memory.
fn run(interrupted: usize, other: usize, main: extern "C" fn()) -> usize {
    SEEN.store(1, Ordering::Relaxed);
    handle(handler);
    begin(Which::Interrupted, interrupted, is_interrupted);
    begin(Which::Other, other, main);
    switch(Which::Test, Which::Interrupted);
    SEEN.load(Ordering::Relaxed)
}

/// One test, for contexts and dispositions are the process's; each part in a thread of its own.
#[test]
fn a_handler_that_switches_is_left_when_it_returns() {
    let run = |interrupted, other, main| {
        std::thread::spawn(move || run(interrupted, other, main)).join().unwrap()
    };
    for (interrupted, other) in [(0, 1), (1, 0), (2, 1), (0, 2)] {
        // In the handler, elsewhere, in the handler again; not after it.
        assert_eq!(run(interrupted, other, goes_on), 0b1_1110, "{interrupted}, {other}");
        // Two handlers are left unfinished, and one of them returns.
        assert_eq!(run(interrupted, other, goes_on_in_a_handler), 0b1_1111);
    }
}
