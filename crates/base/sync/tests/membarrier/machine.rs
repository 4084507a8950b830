//! A machine of a few words and threads, whose stores wait in buffers, and every way in which it can run.
//!
//! Loom knows no fence that one thread puts into another. Here a store becomes visible at any later time, and may
//! overtake stores to other words before it unless it is a release; loads are made in their order. The kernel's fence
//! empties the buffers of all others. A thread that is marked mortal may stop for good between any two steps.

use std::collections::HashSet;

/// The machine's words.
pub(crate) const WORDS: usize = 7;

/// What a step of a program has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It goes on at that place.
    Next(u8),
    /// It can only wait here; nothing has been changed.
    Waits,
    /// The program is over.
    Done,
}

/// A program: what the thread of that number does where it stands.
pub(crate) type Program = fn(&mut Machine, usize) -> Step;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Thread {
    /// Where it stands in its program.
    pub(crate) at: u8,
    /// What it keeps for itself.
    pub(crate) own: [u8; 3],
    pub(crate) is_dead: bool,
    pub(crate) is_done: bool,
    /// Word, value, and whether all stores before come first.
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

    /// The kernel's fence. The caller has fenced itself in a step before.
    pub(crate) fn fence_others(&mut self, me: usize) {
        (0..self.threads.len()).filter(|&other| other != me).for_each(|other| self.fence(other));
    }

    /// An atomic change, with a full fence; what was there before.
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

/// Every way in which the programs can run. `mortal`: threads that may die. `holds`: what is true at any time.
///
/// # Errors
/// A state that must not be, or one in which a living thread waits for ever.
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
                // Before the kernel says so.
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
