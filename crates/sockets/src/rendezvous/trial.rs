//! Trials: before two processes share anything, each shows that it could trace the other.
//!
//! Each of the two processes reads the other's challenge ([`sovia_sys::trace`]) and sends back the secret. The
//! kernel's rule for tracing decides which process can read a challenge. A challenge is made for one process. The
//! secret is accepted only in a message to which the kernel attaches the id of this process. So the secret is of no
//! use to another user's process that learns it, or to a forked child that inherits it.
//!
//! A trial lasts as long as a rendezvous needs it, and is never ended to make room for another trial. If many
//! processes took turns, each would lose its trial before it had answered.

use crate::message::Process;
use sovia_control::Reason;
use sovia_sys::Errno;
use sovia_sys::trace::{Challenge, Secret};

/// A process that must show that it could trace this process.
pub(super) struct Trial {
    with: Process,
    challenge: Challenge,
}

/// Every trial under way in this process.
pub(super) struct Trials(Vec<Trial>);

impl Trials {
    pub(super) const fn new() -> Trials {
        Trials(Vec::new())
    }

    /// Returns the place (descriptor number) of the challenge for a process. Makes a challenge if there is none.
    ///
    /// # Errors
    /// Returns the reason why the challenge cannot be made.
    pub(super) fn place_for(&mut self, with: Process) -> Result<i32, Reason> {
        if let Some(known) = self.of(with) {
            return Ok(known.challenge.place());
        }
        let challenge = Challenge::new().map_err(|error| match error {
            Errno::EMFILE | Errno::ENFILE => Reason::NoDescriptors,
            _ => Reason::NoMemory,
        })?;
        if !challenge.is_high() {
            // Do not use a low descriptor number, because the program may need the number.
            return Err(Reason::NoDescriptors);
        }
        let place = challenge.place();
        self.0.push(Trial { with, challenge });
        Ok(place)
    }

    /// Returns true if a trial of the process `with` is under way.
    pub(super) fn has(&self, with: Process) -> bool {
        self.of(with).is_some()
    }

    fn of(&self, with: Process) -> Option<&Trial> {
        self.0.iter().find(|trial| trial.with == with)
    }

    /// Returns true if `shown` is the secret of the challenge for `process`. Then `process` could trace the calling
    /// process.
    pub(super) fn passed_by(&self, process: Process, shown: &Secret) -> bool {
        self.of(process).is_some_and(|trial| trial.challenge.is_met_by(shown))
    }

    /// Ends a process's trial. Called when the calling process shares a segment with that process, or when no
    /// rendezvous needs the trial.
    pub(super) fn over(&mut self, with: Process) {
        self.0.retain(|trial| trial.with != with);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
