//! Writes words of the segment as the hostile peer does, even during a call of the honest side: just before the
//! call reads the word.

use sovia_ring::fuzzing::play;
use sovia_ring::layout::SEGMENT;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Looks at the segment that one call may take. The longest honest one (a ring and an overflow buffer full of
/// messages) takes some thousands.
const LOOKS_MAX: u64 = 400_000;

/// How a word is changed.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// To that.
    Set(u64),
    /// By so much.
    Add(u64),
    /// In those bits.
    Xor(u64),
    /// In its lower half, to that.
    Low(u32),
    /// In its upper half, to that.
    High(u32),
}

impl Change {
    fn of(self, word: u64) -> u64 {
        match self {
            Change::Set(value) => value,
            Change::Add(n) => word.wrapping_add(n),
            Change::Xor(bits) => word ^ bits,
            Change::Low(half) => word & !0xffff_ffff | u64::from(half),
            Change::High(half) => word & 0xffff_ffff | u64::from(half) << 32,
        }
    }
}

/// When and where a change is made in the middle of a call.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// Before the look of that number, to the word that is looked at.
    AtLook(u64, Change),
    /// Before the look of that number, to the word at that offset.
    Elsewhere(u64, usize, Change),
    /// Before each look at the word at that offset.
    Always(usize, Change),
    /// Keeps rings full: whenever the honest side reads another slot, the slot holds an entry. The entry has
    /// this upper half of its head, and this second word.
    Endless {
        /// Offset of the ring's first slot.
        at: usize,
        /// Bytes of a slot.
        slot: usize,
        /// Slots.
        slots: usize,
        /// The upper half of the head.
        head: u32,
        /// The second word.
        more: u64,
    },
}

#[derive(Debug, Default)]
struct State {
    /// Address at which the honest side has mapped the segment.
    base: usize,
    looks: u64,
    rules: Vec<Rule>,
    /// The last slot of an endless ring that was looked at, and its tag.
    last: Option<(usize, u32)>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::default());
}

/// The word at an offset of the segment mapped at `base`.
fn word(base: usize, offset: usize) -> &'static AtomicU64 {
    assert!(offset + 8 <= SEGMENT && offset.is_multiple_of(8));
    // SAFETY: within a segment that is mapped for as long as the story lasts, and only atomics lie there.
    unsafe { AtomicU64::from_ptr((base + offset) as *mut u64) }
}

/// Changes a word between calls.
pub fn write(base: usize, offset: usize, change: Change) {
    let word = word(base, offset);
    word.store(change.of(word.load(Ordering::SeqCst)), Ordering::SeqCst);
}

fn look(at: usize, _len: usize) {
    STATE.with_borrow_mut(|state| {
        let Some(offset) = at.checked_sub(state.base).filter(|&offset| offset < SEGMENT) else {
            return;
        };
        let offset = offset & !7;
        state.looks += 1;
        assert!(state.looks < LOOKS_MAX, "a call goes on for as long as its peer likes");
        let (base, looks) = (state.base, state.looks);
        for rule in &state.rules {
            match *rule {
                Rule::AtLook(n, change) if n == looks => write(base, offset, change),
                Rule::Elsewhere(n, other, change) if n == looks => write(base, other, change),
                Rule::Always(here, change) if here == offset => write(base, here, change),
                Rule::Endless { at, slot, slots, head, more } => {
                    let Some(i) = offset.checked_sub(at).map(|n| n / slot).filter(|&i| i < slots)
                    else {
                        continue;
                    };
                    let first = at + i * slot;
                    let tag = word(base, first).load(Ordering::SeqCst) as u32;
                    match state.last {
                        Some((last, before)) if (last + 1) % slots == i => {
                            let tag = before.wrapping_add(1);
                            write(base, first, Change::Set(u64::from(tag) | u64::from(head) << 32));
                            write(base, first + 8, Change::Set(more));
                            state.last = Some((i, tag));
                        }
                        Some((last, _)) if last == i => {}
                        _ => {
                            // Writes the entry that an honest peer would write next.
                            let lap = tag.checked_sub(1).map_or(0, |n| n / slots as u32 + 1);
                            let tag = lap.wrapping_mul(slots as u32).wrapping_add(i as u32 + 1);
                            write(base, first, Change::Set(u64::from(tag) | u64::from(head) << 32));
                            write(base, first + 8, Change::Set(more));
                            state.last = Some((i, tag));
                        }
                    }
                }
                _ => {}
            }
        }
    });
}

/// Makes a call of the honest side's, with the peer's hand in the segment that it has mapped at `base`.
pub fn during<R>(base: usize, rules: Vec<Rule>, call: impl FnOnce() -> R) -> R {
    STATE.set(State { base, looks: 0, rules, last: None });
    play(Some(look));
    let result = call();
    play(None);
    result
}
