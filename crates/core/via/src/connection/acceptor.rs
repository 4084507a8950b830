//! State of a request at the accepting side.

use super::{IllegalStep, Phase, Step};
use crate::attributes::ViAttributes;
use crate::error::ConnectError;

/// State of a request at the accepting side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptor {
    phase: Phase,
    /// Attribute in which the last VI that the program tried does not match.
    difference: Option<ConnectError>,
}

impl Default for Acceptor {
    fn default() -> Acceptor {
        Acceptor { phase: Phase::Requested, difference: None }
    }
}

impl Acceptor {
    /// Creates the state of a new request.
    pub fn new() -> Acceptor {
        Acceptor::default()
    }

    /// Returns the request's phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Makes a step.
    ///
    /// # Errors
    /// [`IllegalStep`] if the table has no entry. The phase does not change then.
    pub fn step(&mut self, step: Step) -> Result<(), IllegalStep> {
        self.phase = self.phase.after(step)?;
        Ok(())
    }

    /// Checks that a VI with the attributes `ours` matches the request of a VI with the attributes `theirs`. Records a
    /// mismatch.
    ///
    /// # Errors
    /// The mismatch, or [`ConnectError::Timeout`] if the request is over, because only the requester ends a request
    /// early.
    pub fn compare(
        &mut self,
        ours: &ViAttributes,
        theirs: &ViAttributes,
    ) -> Result<(), ConnectError> {
        if self.phase.is_over() {
            return Err(ConnectError::Timeout);
        }
        let Err(difference) = ours.fit(theirs) else { return Ok(()) };
        self.step(Step::Differ).map_err(|_| ConnectError::Timeout)?;
        self.difference = Some(difference.clone());
        Err(difference)
    }

    /// Rejects the request. Returns the answer for the requester; `None` if the request is over. A requester whose VI
    /// did not match gets that reason.
    pub fn refuse(&mut self) -> Option<ConnectError> {
        self.step(Step::Reject).ok()?;
        Some(match self.phase {
            Phase::Mismatched => self.difference.clone().unwrap_or(ConnectError::Rejected),
            _ => ConnectError::Rejected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_size(max_transfer_size: u32) -> ViAttributes {
        ViAttributes { max_transfer_size, ..ViAttributes::default() }
    }

    fn held() -> Acceptor {
        let mut request = Acceptor::new();
        request.step(Step::Take).unwrap();
        request
    }

    #[test]
    fn a_vi_that_does_not_fit_leaves_the_request_to_another() {
        let mut request = held();
        for _ in 0..2 {
            let error = request.compare(&of_size(1), &of_size(2));
            assert_eq!(error, Err(ConnectError::MaxTransferSize));
            assert_eq!(request.phase(), Phase::Unfit);
        }
        assert_eq!(request.compare(&of_size(2), &of_size(2)), Ok(()));
        request.step(Step::Accept).unwrap();
        assert_eq!((request.phase(), request.refuse()), (Phase::Accepted, None));
    }

    #[test]
    fn refused_requester_gets_the_reason() {
        assert_eq!(held().refuse(), Some(ConnectError::Rejected));
        let mut request = held();
        let _ = request.compare(&of_size(1), &of_size(2));
        assert_eq!(request.refuse(), Some(ConnectError::MaxTransferSize));
        assert_eq!((request.phase(), request.refuse()), (Phase::Mismatched, None));
    }

    #[test]
    fn a_request_that_is_over_is_compared_with_nothing() {
        let mut request = held();
        request.step(Step::Withdraw).unwrap();
        assert_eq!(request.compare(&of_size(1), &of_size(2)), Err(ConnectError::Timeout));
        assert_eq!((request.phase(), request.refuse()), (Phase::Withdrawn, None));
    }

    #[test]
    fn a_peer_that_does_not_fit_ends_the_request() {
        let mut request = Acceptor::new();
        let error = request.compare(&of_size(1), &of_size(2));
        assert_eq!(
            (error, request.phase()),
            (Err(ConnectError::MaxTransferSize), Phase::Mismatched)
        );
    }
}
