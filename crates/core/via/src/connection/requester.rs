//! A request where it was made.

use super::{IllegalStep, Phase, Step};
use crate::error::ConnectError;
use crate::state::Event;

/// By which of VIPL's two models a VI is to be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A server waits, is asked, and answers.
    ClientServer,
    /// Both sides ask, and neither answers.
    PeerToPeer,
}

/// A request, as the side that has made it knows of it. It hears of the far side's steps late, or
/// of several at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    model: Model,
    phase: Phase,
}

impl Requester {
    /// A request that is being made.
    pub fn new(model: Model) -> Requester {
        Requester { model, phase: Phase::Requested }
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// A waiting program has it, and will answer in its own time. (Peers have no such program.)
    ///
    /// # Errors
    /// [`IllegalStep`] if it is over. That it is known already is none.
    pub fn taken(&mut self) -> Result<(), IllegalStep> {
        let known = self.phase == Phase::Held || self.model == Model::PeerToPeer;
        if !known || self.phase.is_over() {
            self.phase = self.phase.after(Step::Take)?;
        }
        Ok(())
    }

    /// It has come to this; what that is for the VI.
    ///
    /// # Errors
    /// [`IllegalStep`] if it is over already.
    pub fn end(&mut self, outcome: Result<(), &ConnectError>) -> Result<Event, IllegalStep> {
        let steps = match outcome {
            Ok(()) => self.model.accepted(),
            Err(error) => self.model.refused(error),
        };
        let steps = match (self.phase, steps) {
            // An answer is the first that is heard of its being taken, or not.
            (Phase::Held, [Step::Take, rest @ ..]) => rest,
            // The program that holds it cannot have missed it: there is no talking to such a peer.
            (Phase::Held, [Step::Miss]) => &[Step::Lose],
            (_, all) => all,
        };
        self.phase = steps.iter().try_fold(self.phase, |phase, &step| phase.after(step))?;
        debug_assert!(self.phase.is_over());
        Ok(self.phase.event().unwrap_or(Event::Refused))
    }
}

impl Model {
    fn accepted(self) -> &'static [Step] {
        match self {
            Model::ClientServer => &[Step::Take, Step::Accept],
            Model::PeerToPeer => &[Step::Meet],
        }
    }

    fn refused(self, error: &ConnectError) -> &'static [Step] {
        match error {
            ConnectError::Rejected => &[Step::Take, Step::Reject],
            ConnectError::Reliability | ConnectError::MaxTransferSize => match self {
                Model::ClientServer => &[Step::Take, Step::Differ, Step::Reject],
                Model::PeerToPeer => &[Step::Differ],
            },
            ConnectError::NoMatch => &[Step::Miss],
            ConnectError::Timeout => &[Step::Expire],
            ConnectError::State(_) => &[Step::Withdraw],
            // The same to the VI: what this side cannot ask never reaches the far one.
            ConnectError::NotReachable(_)
            | ConnectError::InvalidParameter(_)
            | ConnectError::Resource(_)
            | ConnectError::System { .. } => &[Step::Lose],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{IllegalTransition, ViState};

    const MODELS: [Model; 2] = [Model::ClientServer, Model::PeerToPeer];

    fn errors() -> Vec<(ConnectError, Phase)> {
        let illegal = IllegalTransition { state: ViState::Idle, event: Event::Accepted };
        vec![
            (ConnectError::Rejected, Phase::Rejected),
            (ConnectError::Reliability, Phase::Mismatched),
            (ConnectError::MaxTransferSize, Phase::Mismatched),
            (ConnectError::NoMatch, Phase::Unmet),
            (ConnectError::Timeout, Phase::Expired),
            (ConnectError::State(illegal), Phase::Withdrawn),
            (ConnectError::NotReachable("gone"), Phase::Lost),
            (ConnectError::Resource("none"), Phase::Lost),
        ]
    }

    #[test]
    fn each_outcome_is_its_phase() {
        for model in MODELS {
            for (error, phase) in errors() {
                let mut request = Requester::new(model);
                let event = request.end(Err(&error)).unwrap();
                assert_eq!((request.phase(), Some(event)), (phase, phase.event()), "{model:?}");
            }
            let mut request = Requester::new(model);
            assert_eq!(request.end(Ok(())), Ok(Event::Accepted));
        }
    }

    #[test]
    fn an_answer_may_follow_what_was_heard_before() {
        for (error, phase) in errors() {
            let mut request = Requester::new(Model::ClientServer);
            request.taken().unwrap();
            request.taken().unwrap();
            request.end(Err(&error)).unwrap();
            let expected = if phase == Phase::Unmet { Phase::Lost } else { phase };
            assert_eq!(request.phase(), expected);
        }
    }

    #[test]
    fn what_comes_late_changes_nothing() {
        for model in MODELS {
            let mut request = Requester::new(model);
            request.end(Err(&ConnectError::Timeout)).unwrap();
            assert!(request.end(Ok(())).is_err() && request.taken().is_err());
            assert_eq!(request.phase(), Phase::Expired);
        }
    }
}
