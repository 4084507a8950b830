//! State of a request at the requesting side.

use super::{IllegalStep, Phase, Step};
use crate::error::ConnectError;
use crate::state::Event;

/// VIPL's two models of connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A server waits for a request and answers it.
    ClientServer,
    /// Both sides make requests, and neither answers.
    PeerToPeer,
}

/// State of a request at the requesting side. This side learns of the peer's steps late, or of several at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    model: Model,
    phase: Phase,
}

impl Requester {
    /// Creates the state of a new request.
    pub fn new(model: Model) -> Requester {
        Requester { model, phase: Phase::Requested }
    }

    /// Returns the request's phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Records that a waiting program has the request and will answer later. (There is no such program in the
    /// peer-to-peer model.)
    ///
    /// # Errors
    /// [`IllegalStep`] if the request is over. A repeated call is no error.
    pub fn taken(&mut self) -> Result<(), IllegalStep> {
        let known = self.phase == Phase::Held || self.model == Model::PeerToPeer;
        if !known || self.phase.is_over() {
            self.phase = self.phase.after(Step::Take)?;
        }
        Ok(())
    }

    /// Records the outcome of the request. Returns the event for the VI.
    ///
    /// # Errors
    /// [`IllegalStep`] if the request is over.
    pub fn end(&mut self, outcome: Result<(), &ConnectError>) -> Result<Event, IllegalStep> {
        let steps = match outcome {
            Ok(()) => self.model.accepted(),
            Err(error) => self.model.refused(error),
        };
        let steps = match (self.phase, steps) {
            // The answer also says that a program took the request, unless the requester knows that already.
            (Phase::Held, [Step::Take, rest @ ..]) => rest,
            // The program that holds the request cannot have missed it, so such an answer counts as a lost peer.
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
            // These count as a lost peer, because the request never reached the peer.
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
    fn outcome_may_follow_a_taken_request() {
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
