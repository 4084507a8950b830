//! A thread that leaves a handler by `swapcontext` counts as in the handler until the handler has ended.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{SIGUSR1, c_int, ucontext_t};
use sovia_signal::chain;

const STACK: usize = 256 << 10;

/// The thread's contexts: the test, the interrupted code, and the code to which the handler switches.
#[derive(Clone, Copy)]
enum Which {
    Test,
    Interrupted,
    Other,
}

struct Shared<T>(UnsafeCell<T>);

// SAFETY: only one thread at a time uses the value.
unsafe impl<T> Sync for Shared<T> {}

static CONTEXTS: Shared<MaybeUninit<[ucontext_t; 3]>> =
    Shared(UnsafeCell::new(MaybeUninit::uninit()));
static STACKS: Shared<[[u8; STACK]; 3]> = Shared(UnsafeCell::new([[0; STACK]; 3]));

/// Results of `is_in_handler` at each point, in order: one bit each, after a first bit that is 1.
static SEEN: AtomicUsize = AtomicUsize::new(1);

fn look() {
    let seen = SEEN.load(Ordering::Relaxed);
    SEEN.store(seen << 1 | usize::from(chain::is_in_handler()), Ordering::Relaxed);
}

fn context(which: Which) -> *mut ucontext_t {
    CONTEXTS.0.get().cast::<ucontext_t>().wrapping_add(which as usize)
}

/// Does what the hook does, and then calls libc.
fn switch(from: Which, to: Which) {
    chain::switches();
    // SAFETY: both contexts belong to this thread, and the stack that `to` uses still exists.
    unsafe { libc::swapcontext(context(from), context(to)) };
}

fn begin(which: Which, stack: usize, main: extern "C" fn()) {
    // SAFETY: the context is separate, and no other context uses its stack.
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
    // SAFETY: `raise` takes a number, and the signal has a handler.
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
    // SAFETY: `sigaction` is plain data, for which all-zero bytes are valid.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_NODEFER;
    assert!(chain::change(SIGUSR1, Some(&action), None, false));
}

/// Runs a test on the stacks with these numbers. A higher number means a higher address.
fn run(interrupted: usize, other: usize, main: extern "C" fn()) -> usize {
    SEEN.store(1, Ordering::Relaxed);
    handle(handler);
    begin(Which::Interrupted, interrupted, is_interrupted);
    begin(Which::Other, other, main);
    switch(Which::Test, Which::Interrupted);
    SEEN.load(Ordering::Relaxed)
}

/// One test, because contexts and dispositions belong to the process. Each part runs in a separate thread.
#[test]
fn handler_that_switches_contexts_counts_until_its_return() {
    let run = |interrupted, other, main| {
        std::thread::spawn(move || run(interrupted, other, main)).join().unwrap()
    };
    for (interrupted, other) in [(0, 1), (1, 0), (2, 1), (0, 2)] {
        // The thread is in the handler, elsewhere, in the handler again, and then after the handler.
        assert_eq!(run(interrupted, other, goes_on), 0b1_1110, "{interrupted}, {other}");
        // Two handlers are unfinished, and one of them returns.
        assert_eq!(run(interrupted, other, goes_on_in_a_handler), 0b1_1111);
    }
}
