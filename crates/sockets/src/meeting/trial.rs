//! Whether this process and another one could trace each other: shown before anything is shared.
//!
//! Each of the two reads the other's challenge ([`sovia_sys::trace`]) and says what it has read. Which
//! process can read a challenge is decided by the kernel's rule for tracing. Challenges are made for one
//! process and accepted from that process alone, by the id that the kernel vouches for: what a
//! stranger learns of one, or a forked child inherits, is of no use to it.
//!
//! A trial lasts as long as a meeting that wants it. None makes room for another one: where many processes take turns, each
//! would lose its trial before it has answered.

use crate::message::Process;
use sovia_control::Reason;
use sovia_sys::Errno;
use sovia_sys::trace::{Challenge, Secret};

/// A process that is to show that it could trace this one.
pub(super) struct Trial {
    with: Process,
    challenge: Challenge,
}

/// All trials under way in this process.
pub(super) struct Trials(Vec<Trial>);

impl Trials {
    pub(super) const fn new() -> Trials {
        Trials(Vec::new())
    }

    /// Returns the place of the challenge for a process. Makes one unless there is one.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub(super) fn place_for(&mut self, with: Process) -> Result<i32, Reason> {
        if let Some(known) = self.of(with) {
            return Ok(known.challenge.place());
        }
        let challenge = Challenge::new().map_err(|error| match error {
            Errno::EMFILE | Errno::ENFILE => Reason::NoDescriptors,
            _ => Reason::NoMemory,
        })?;
        if !challenge.is_high() {
            // Its number may be one that the program needs.
            return Err(Reason::NoDescriptors);
        }
        let place = challenge.place();
        self.0.push(Trial { with, challenge });
        Ok(place)
    }

    /// Whether a trial of that process is under way.
    pub(super) fn has(&self, with: Process) -> bool {
        self.of(with).is_some()
    }

    fn of(&self, with: Process) -> Option<&Trial> {
        self.0.iter().find(|trial| trial.with == with)
    }

    /// Whether a process has shown what only a process can know that could trace this one.
    pub(super) fn passed_by(&self, process: Process, shown: &Secret) -> bool {
        self.of(process).is_some_and(|trial| trial.challenge.is_met_by(shown))
    }

    /// The two processes share a segment, or no meeting wants the trial any more.
    pub(super) fn over(&mut self, with: Process) {
        self.0.retain(|trial| trial.with != with);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
