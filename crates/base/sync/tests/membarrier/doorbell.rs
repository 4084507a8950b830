//! A notifying thread that leaves its fence to the sleeping threads, and resumes its own fences
//! (`sovia_ring::quiet`).

use crate::membarrier::machine::{Machine, Step, explore};

const EVENT: usize = 0;
const ANNOUNCED: usize = 1;
const RUNG: usize = 2;
const FENCING: usize = 3;
const WORD: usize = 4;
/// The step of the protocol that the run omits. Never changes during a run.
const LEFT_OUT: usize = 5;

const BY_RINGER: u8 = 0;
const BY_SLEEPER: u8 = 1;
/// Number of messages that the notifying thread publishes.
const MESSAGES: u8 = 4;

const NOTHING: u8 = 0;
const KERNELS_FENCE: u8 = 1;
const FENCE_AT_LEAVING: u8 = 2;

fn lacks(machine: &Machine, what: u8) -> bool {
    machine.memory[LEFT_OUT] == what
}

/// Program of the notifying thread. `own`: number of published messages; 1 if sleeping threads execute the fence;
/// the announced sleep that the thread is about to end.
fn notifier(machine: &mut Machine, me: usize) -> Step {
    const IS_LEFT: usize = 1;
    let finds_sleeper = |machine: &Machine| machine.load(me, ANNOUNCED) != machine.load(me, RUNG);
    let [published, is_left, rings_for] = machine.threads[me].own;
    match machine.threads[me].at {
        0 if published == MESSAGES => Step::Done,
        0 => {
            machine.threads[me].own[0] += 1;
            machine.release(me, EVENT, published + 1);
            Step::Next(if is_left == 1 { 4 } else { 1 })
        }
        1 => {
            machine.fence(me);
            Step::Next(2)
        }
        2 if finds_sleeper(machine) => Step::Next(10),
        2 => {
            machine.threads[me].own[IS_LEFT] = 1;
            match lacks(machine, FENCE_AT_LEAVING) {
                true => machine.store(me, FENCING, BY_SLEEPER),
                false => drop(machine.change(me, FENCING, |_| BY_SLEEPER)),
            }
            Step::Next(0)
        }
        // This path has no fence.
        4 if finds_sleeper(machine) => Step::Next(5),
        4 => Step::Next(0),
        5 => {
            machine.threads[me].own[IS_LEFT] = 0;
            machine.store(me, FENCING, BY_RINGER);
            Step::Next(1)
        }
        10 => {
            machine.threads[me].own[2] = machine.load(me, ANNOUNCED);
            Step::Next(11)
        }
        11 => {
            machine.change(me, WORD, |word| word + 1);
            Step::Next(12)
        }
        _ => {
            machine.change(me, RUNG, |_| rings_for);
            Step::Next(0)
        }
    }
}

/// Program of the sleeping thread. `own`: number of received messages; value of `WORD` before the sleep.
fn sleeper(machine: &mut Machine, me: usize) -> Step {
    let [received, before, _] = machine.threads[me].own;
    let receives = |machine: &mut Machine, otherwise| {
        let event = machine.load(me, EVENT);
        machine.threads[me].own[0] = event;
        Step::Next(if event == received { otherwise } else { 0 })
    };
    match machine.threads[me].at {
        0 if received == MESSAGES => Step::Done,
        0 => {
            machine.threads[me].own[1] = machine.load(me, WORD);
            Step::Next(1)
        }
        1 => receives(machine, 2),
        2 => {
            machine.change(me, ANNOUNCED, |sleeps| sleeps + 1);
            Step::Next(3)
        }
        3 if machine.load(me, FENCING) == BY_SLEEPER && !lacks(machine, KERNELS_FENCE) => {
            Step::Next(4)
        }
        3 => Step::Next(5),
        4 => {
            machine.fence_others(me);
            Step::Next(5)
        }
        5 => receives(machine, 6),
        // The kernel compares the word before the sleep.
        _ if machine.memory[WORD] == before => Step::Waits,
        _ => Step::Next(0),
    }
}

fn run(left_out: u8) -> Result<usize, String> {
    let mut start = Machine::new(2);
    start.memory[LEFT_OUT] = left_out;
    explore(start, &[notifier, sleeper], &[], |_| true)
}

#[test]
fn no_sleeper_is_left_asleep_by_a_notifier_that_does_not_fence() {
    println!("{} states", run(NOTHING).unwrap());
}

#[test]
fn a_sleeper_is_left_asleep_without_the_kernels_fence() {
    assert!(run(KERNELS_FENCE).is_err());
}

#[test]
fn a_sleeper_is_left_asleep_without_the_last_fence_of_the_notifier() {
    assert!(run(FENCE_AT_LEAVING).is_err());
}
