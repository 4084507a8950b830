//! A model of a machine with a few words and threads. Stores wait in buffers, and the model tries every
//! execution.
//!
//! Loom has no fence that one thread executes in another thread. Here a store becomes visible at any later time.
//! A store that is no release may overtake earlier stores to other words. A thread executes its loads in order.
//! The kernel's fence empties the buffers of all other threads. A mortal thread may stop for ever between any two
//! steps.

use std::collections::HashSet;

/// Number of words in the machine's memory.
pub(crate) const WORDS: usize = 7;

/// Result of one step of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The thread continues at this position of the program.
    Next(u8),
    /// The thread can only wait here. The step has changed nothing.
    Waits,
    /// The program has ended.
    Done,
}

/// Program of a thread. Executes the next step of the thread with this number.
pub(crate) type Program = fn(&mut Machine, usize) -> Step;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Thread {
    /// The thread's position in its program.
    pub(crate) at: u8,
    /// The thread's private variables.
    pub(crate) own: [u8; 3],
    pub(crate) is_dead: bool,
    pub(crate) is_done: bool,
    /// Buffered stores: word, value, and whether the store must follow all earlier stores.
    buffer: Vec<(usize, u8, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    pub(crate) memory: [u8; WORDS],
    pub(crate) threads: Vec<Thread>,
}

impl Machine {
    pub(crate) fn new(threads: usize) -> Machine {
        Machine { memory: [0; WORDS], threads: vec![Thread::default(); threads] }
    }

    pub(crate) fn load(&self, me: usize, word: usize) -> u8 {
        let own = self.threads[me].buffer.iter().rev().find(|store| store.0 == word);
        own.map_or(self.memory[word], |store| store.1)
    }

    pub(crate) fn store(&mut self, me: usize, word: usize, value: u8) {
        self.threads[me].buffer.push((word, value, false));
    }

    pub(crate) fn release(&mut self, me: usize, word: usize, value: u8) {
        self.threads[me].buffer.push((word, value, true));
    }

    pub(crate) fn fence(&mut self, me: usize) {
        for (word, value, _) in std::mem::take(&mut self.threads[me].buffer) {
            self.memory[word] = value;
        }
    }

    /// Executes the kernel's fence. The caller has executed its own fence in an earlier step.
    pub(crate) fn fence_others(&mut self, me: usize) {
        (0..self.threads.len()).filter(|&other| other != me).for_each(|other| self.fence(other));
    }

    /// Changes a word by an atomic operation with a full fence. Returns the word's old value.
    pub(crate) fn change(&mut self, me: usize, word: usize, change: impl FnOnce(u8) -> u8) -> u8 {
        self.fence(me);
        let before = self.memory[word];
        self.memory[word] = change(before);
        before
    }

    fn drained(&self, thread: usize, store: usize) -> Option<Machine> {
        let buffer = &self.threads[thread].buffer;
        let (word, value, is_release) = buffer[store];
        if is_release && store > 0 || buffer[..store].iter().any(|before| before.0 == word) {
            return None;
        }
        let mut next = self.clone();
        next.threads[thread].buffer.remove(store);
        next.memory[word] = value;
        Some(next)
    }
}

/// Tries every execution of the programs and returns the number of states. `mortal`: threads that may die.
/// `holds`: the invariant of every state.
///
/// # Errors
/// A state that violates `holds`, or in which a living thread waits for ever.
pub(crate) fn explore(
    start: Machine,
    programs: &[Program],
    mortal: &[usize],
    holds: fn(&Machine) -> bool,
) -> Result<usize, String> {
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        if !holds(&state) {
            return Err(format!("must not be: {state:?}"));
        }
        let mut next = Vec::new();
        for (me, thread) in state.threads.iter().enumerate() {
            next.extend((0..thread.buffer.len()).filter_map(|store| state.drained(me, store)));
            if thread.is_dead || thread.is_done {
                continue;
            }
            let mut after = state.clone();
            match programs[me](&mut after, me) {
                Step::Next(at) => after.threads[me].at = at,
                Step::Done => after.threads[me].is_done = true,
                Step::Waits => continue,
            }
            next.push(after);
            if mortal.contains(&me) {
                let mut after = state.clone();
                after.threads[me].is_dead = true;
                // A dead thread's stores become visible before the kernel reports the death.
                after.fence(me);
                next.push(after);
            }
        }
        if next.is_empty() && state.threads.iter().any(|thread| !thread.is_dead && !thread.is_done)
        {
            return Err(format!("waits for ever: {state:?}"));
        }
        open.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    Ok(seen.len())
}
