//! Compares calls on an accelerated connection with the kernel's calls on a TCP connection in the same state.

mod configuring;
mod receiving;
mod sending;
mod states;
mod waiting;

use super::kernel::{Answer, Call, Case, Differences, Scratch, kernel};
use super::{Pair, ours};
use libc::{c_int, iovec, mmsghdr, msghdr};

/// Address at which no process can map memory.
const OUT_OF_RANGE: usize = 0xdead_0000_0000_0000;

/// Address within the first page.
const FIRST_PAGE: usize = 0x10;

/// Unread bytes at the end under test.
const UNREAD: &[u8] = b"0123456789";

/// Index of the end under test in each pair.
const TESTED: usize = 1;

/// Two pairs in the same state: one without Sovia, one accelerated.
struct Pairs {
    pairs: [Pair; 2],
    scratch: Scratch,
    differences: Differences,
}

impl Pairs {
    fn new() -> Pairs {
        Pairs {
            pairs: [Pair::of_kernel(), Pair::accelerated()],
            scratch: Scratch::new(),
            differences: Differences::default(),
        }
    }

    fn fds(&self) -> [c_int; 2] {
        [self.pairs[0].fds[TESTED], self.pairs[1].fds[TESTED]]
    }

    /// Makes a call on each pair, and compares the results. Then compares the unread bytes at each end of the two
    /// pairs.
    fn compare_by(&mut self, case: Case, theirs: fn(Call) -> Answer) {
        let fds = self.fds();
        self.differences.compare(&mut self.scratch, case, fds, theirs, ours);
        for end in 0..2 {
            let wanted = self.pairs[0].rest(end, 0);
            let got = self.pairs[1].rest(end, wanted.len());
            if got != wanted {
                let text = format_args!("end {end} reads {got:?}, the kernel's {wanted:?}");
                self.differences.note(case.0, text);
            }
        }
    }
}

/// Makes each call on two connections whose tested ends have the unread bytes [`UNREAD`]. After a call that moves a
/// connection to TCP, uses new connections.
fn compare(cases: &[Case]) {
    compare_by(cases, kernel);
}

fn compare_by(cases: &[Case], theirs: fn(Call) -> Answer) {
    let mut pairs = Pairs::new();
    for &case in cases {
        if !pairs.pairs[1].is_accelerated() {
            pairs.pairs[1] = Pair::accelerated();
        }
        for pair in &pairs.pairs {
            pair.send(1 - TESTED, UNREAD);
            pair.arrive();
        }
        pairs.compare_by(case, theirs);
    }
    pairs.differences.assert_none();
}

/// Like [`compare`], but with new connections for each call, for calls that change the connection.
fn compare_fresh(cases: &[Case]) {
    for case in cases {
        compare(&[*case]);
    }
}

/// Makes each call on the same two connections, which `prepare` has changed.
fn compare_prepared(cases: &[Case], prepare: fn(&Pair)) {
    let mut pairs = Pairs::new();
    for pair in &pairs.pairs {
        prepare(pair);
        pair.arrive();
    }
    for &case in cases {
        pairs.compare_by(case, kernel);
    }
    pairs.differences.assert_none();
}

/// Stores a list of buffers, each an address and a length. Returns the address of the list.
fn list(scratch: &mut Scratch, buffers: &[(usize, usize)]) -> usize {
    let at = scratch.room(size_of_val(buffers));
    for (i, &(base, len)) in buffers.iter().enumerate() {
        let entry = iovec { iov_base: base as *mut _, iov_len: len };
        // SAFETY: `room` has just reserved memory for all entries.
        unsafe { (at as *mut iovec).add(i).write(entry) };
    }
    at
}

/// Returns an `mmsghdr` as words: a message with `count` buffers at `list`. The struct itself would have padding of
/// undefined value.
fn entry(list: usize, count: usize) -> [usize; 8] {
    [0, 0, list, count, 0, 0, 0, 77]
}

const _: () = assert!(size_of::<mmsghdr>() == size_of::<[usize; 8]>());

/// Returns a message with `count` buffers at `list`.
fn message(list: usize, count: usize) -> msghdr {
    // SAFETY: all zeros are a valid message header.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = list as *mut _;
    message.msg_iovlen = count;
    message
}
