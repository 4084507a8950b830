//! A lock with a bias, and threads that revoke the bias ([`sovia_sync::BiasedLock`]).

use crate::membarrier::machine::{Machine, Step, explore};

/// Owner of the inner lock; 0 for none.
const OWNER: usize = 0;
/// The biased thread; 0 for none.
const BIASED: usize = 1;
/// Index before the words that say which thread is inside. Word `INSIDE + N` is 1 while thread N says so.
const INSIDE: usize = 1;
/// The part of the protocol that the run omits. Never changes during a run.
const LEFT_OUT: usize = 4;
/// Set in `BIASED` while a thread revokes the bias.
const ENDING: u8 = 8;

const NOTHING: u8 = 0;
const KERNELS_FENCE: u8 = 1;
/// If omitted, the revoking thread clears the bias at once, without `ENDING`.
const TWO_STEPS: u8 = 2;
/// If omitted, all threads say in one word of the lock that they are inside.
const WORDS_OF_THEIR_OWN: u8 = 3;

fn lacks(machine: &Machine, what: u8) -> bool {
    machine.memory[LEFT_OUT] == what
}

fn name(me: usize) -> u8 {
    me as u8 + 1
}

fn word_of(machine: &Machine, thread: u8) -> usize {
    if lacks(machine, WORDS_OF_THEIR_OWN) { INSIDE + 1 } else { INSIDE + usize::from(thread) }
}

/// Position of a thread that holds the lock by bias. `AS_OWNER`: position of a thread that holds the inner lock.
const AS_BIASED: u8 = 20;
const AS_OWNER: u8 = 21;

/// Takes the lock a few times. `own`: number of remaining acquisitions; the thread whose bias this one revokes; 1
/// if the lock becomes biased to this thread.
fn user(machine: &mut Machine, me: usize) -> Step {
    let [left, other, _] = machine.threads[me].own;
    let mine = name(me);
    let own_word = word_of(machine, mine);
    match machine.threads[me].at {
        0 if left == 0 => Step::Done,
        0 => {
            machine.threads[me].own[0] -= 1;
            Step::Next(if machine.load(me, BIASED) == mine { 1 } else { 5 })
        }
        1 => {
            machine.release(me, own_word, 1);
            Step::Next(2)
        }
        // This path has no fence.
        2 if machine.load(me, BIASED) == mine => Step::Next(AS_BIASED),
        2 => {
            machine.release(me, own_word, 0);
            Step::Next(5)
        }
        AS_BIASED => {
            machine.release(me, own_word, 0);
            Step::Next(0)
        }
        // Without a bias: take the inner lock if no thread owns it, or if its owner is dead.
        5 => {
            let owner = machine.load(me, OWNER);
            let is_dead = owner != 0 && machine.threads[usize::from(owner) - 1].is_dead;
            if owner != 0 && !is_dead {
                return Step::Waits;
            }
            machine.change(me, OWNER, |_| mine);
            Step::Next(6)
        }
        6 => {
            let biased = machine.load(me, BIASED);
            machine.threads[me].own[1] = biased & !ENDING;
            Step::Next(match biased & !ENDING {
                0 => AS_OWNER,
                thread if thread == mine => 11,
                _ => 7,
            })
        }
        7 => {
            let ending = if lacks(machine, TWO_STEPS) { 0 } else { other | ENDING };
            machine.change(me, BIASED, |_| ending);
            Step::Next(8)
        }
        8 => {
            if !lacks(machine, KERNELS_FENCE) {
                machine.fence_others(me);
            }
            Step::Next(9)
        }
        9 => {
            let is_dead = machine.threads[usize::from(other) - 1].is_dead;
            match machine.load(me, word_of(machine, other)) == 1 && !is_dead {
                true => Step::Waits,
                false => Step::Next(11),
            }
        }
        11 => {
            machine.store(me, BIASED, 0);
            Step::Next(AS_OWNER)
        }
        // From its next acquisition on, the thread has the bias.
        AS_OWNER => {
            if machine.threads[me].own[2] == 1 {
                machine.release(me, BIASED, mine);
            }
            Step::Next(22)
        }
        _ => {
            machine.release(me, OWNER, 0);
            Step::Next(0)
        }
    }
}

fn excludes(machine: &Machine) -> bool {
    let has_it = |at: u8| at == AS_BIASED || at == AS_OWNER;
    machine.threads.iter().filter(|thread| !thread.is_dead && has_it(thread.at)).count() <= 1
}

/// Explores the protocol. `times`: number of acquisitions of each thread. The lock becomes biased to each of the
/// first `leaning` threads.
fn run(left_out: u8, times: &[u8], leaning: usize, mortal: &[usize]) -> Result<usize, String> {
    let mut start = Machine::new(times.len());
    start.memory[LEFT_OUT] = left_out;
    for (i, (thread, &times)) in start.threads.iter_mut().zip(times).enumerate() {
        thread.own = [times, 0, u8::from(i < leaning)];
    }
    explore(
        start,
        &vec![user as crate::membarrier::machine::Program; times.len()],
        mortal,
        excludes,
    )
}

#[test]
fn a_biased_thread_excludes_the_others() {
    println!("{} states", run(NOTHING, &[3, 2], 1, &[]).unwrap());
    println!("{} states", run(NOTHING, &[2, 2], 2, &[]).unwrap());
}

#[test]
fn a_bias_may_pass_on_while_its_former_thread_stands_still() {
    println!("{} states", run(NOTHING, &[2, 3, 1], 2, &[]).unwrap());
}

#[test]
fn threads_may_die_anywhere() {
    println!("{} states", run(NOTHING, &[2, 1, 1], 1, &[1]).unwrap());
    println!("{} states", run(NOTHING, &[2, 2], 1, &[0]).unwrap());
}

#[test]
fn two_threads_have_the_lock_without_the_kernels_fence() {
    assert!(run(KERNELS_FENCE, &[2, 1], 1, &[]).is_err());
}

#[test]
fn two_threads_have_the_lock_if_a_bias_that_is_being_taken_away_is_not_known() {
    assert!(run(TWO_STEPS, &[2, 1, 1], 1, &[1]).is_err());
}

#[test]
fn two_threads_have_the_lock_if_its_biased_threads_share_a_word() {
    assert!(run(WORDS_OF_THEIR_OWN, &[2, 3, 1], 2, &[]).is_err());
}
