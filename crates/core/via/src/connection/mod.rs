//! The phases of a request for a connection, as one table for both models.
//!
//! A provider keeps a [`Requester`] at the requesting side and an [`Acceptor`] at the accepting side. Both change their
//! [`Phase`] step by step, as the table allows. A step that comes too late is an [`IllegalStep`] and changes nothing,
//! for example an acceptance after the requester has given up. If two steps race, the first one under the provider's
//! lock wins, and the other gets the error.
//!
//! Client–server: a request finds a waiting program, which holds the request and answers it. A VI that does not match
//! is no answer: the program may try another VI. Peer–peer: each side makes its own request, which waits for the other
//! side's request. Then both are matched at once, without an answer.

mod acceptor;
mod requester;

pub use acceptor::Acceptor;
pub use requester::{Model, Requester};

use crate::state::Event;
use core::fmt;

/// The phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Made, but not yet taken by a waiting program or matched with the peer's request.
    Requested,
    /// A waiting program has the request and has not answered (client–server).
    Held,
    /// Like [`Phase::Held`], but the last VI that the program tried does not match.
    Unfit,
    /// Accepted with a VI, or matched with the peer's request: the two VIs are connected.
    Accepted,
    /// Rejected by the program.
    Rejected,
    /// No program waited at the address, or the address does not exist.
    Unmet,
    /// The two VIs differ in an attribute that must be equal.
    Mismatched,
    /// The time expired before an answer.
    Expired,
    /// The requester's program disconnected or destroyed the VI before an answer.
    Withdrawn,
    /// The peer's process ended before an answer, or cannot be reached.
    Lost,
}

/// A step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A waiting program takes the request.
    Take,
    /// No program waits.
    Miss,
    /// The program accepts the request.
    Accept,
    /// The program rejects or drops the request.
    Reject,
    /// The peer's matching request has arrived.
    Meet,
    /// The two VIs do not match.
    Differ,
    /// The time expires.
    Expire,
    /// The requester's program withdraws the request.
    Withdraw,
    /// The peer's process ends, or cannot be reached.
    Lose,
}

/// The error for a step that comes too late, or that the model does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{step} is not possible for a request that is {phase}")]
pub struct IllegalStep {
    /// The request's phase, which does not change.
    pub phase: Phase,
    /// The rejected step.
    pub step: Step,
}

macro_rules! steps {
    ($($step:ident { $($from:ident => $to:ident),+ $(,)? })+) => {
        impl Phase {
            /// Returns the phase after `step`.
            ///
            /// # Errors
            /// [`IllegalStep`] where the table has no entry.
            pub fn after(self, step: Step) -> Result<Phase, IllegalStep> {
                match (step, self) {
                    $($((Step::$step, Phase::$from) => Ok(Phase::$to),)+)+
                    _ => Err(IllegalStep { phase: self, step }),
                }
            }
        }

        impl Step {
            /// Every step, in the table's order.
            pub const ALL: &[Step] = &[$(Step::$step),+];
        }
    };
}

steps! {
    Take     { Requested => Held }
    Miss     { Requested => Unmet }
    Accept   { Held => Accepted, Unfit => Accepted }
    Reject   { Held => Rejected, Unfit => Mismatched }
    Meet     { Requested => Accepted }
    Differ   { Requested => Mismatched, Held => Unfit, Unfit => Unfit }
    Expire   { Requested => Expired, Held => Expired, Unfit => Expired }
    Withdraw { Requested => Withdrawn, Held => Withdrawn, Unfit => Withdrawn }
    Lose     { Requested => Lost, Held => Lost, Unfit => Lost }
}

impl Phase {
    /// Every phase.
    pub const ALL: &[Phase] = &[
        Phase::Requested,
        Phase::Held,
        Phase::Unfit,
        Phase::Accepted,
        Phase::Rejected,
        Phase::Unmet,
        Phase::Mismatched,
        Phase::Expired,
        Phase::Withdrawn,
        Phase::Lost,
    ];

    /// Returns true if the phase is final.
    pub fn is_over(self) -> bool {
        !matches!(self, Phase::Requested | Phase::Held | Phase::Unfit)
    }

    /// Returns the event of the requesting VI in this phase; `None` while the request is pending. The VI of a withdrawn
    /// request has been disconnected.
    pub fn event(self) -> Option<Event> {
        match self {
            Phase::Requested | Phase::Held | Phase::Unfit => None,
            Phase::Accepted => Some(Event::Accepted),
            Phase::Withdrawn => Some(Event::Disconnect),
            _ => Some(Event::Refused),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Requested => "requested",
            Phase::Held => "held",
            Phase::Unfit => "unfit",
            Phase::Accepted => "accepted",
            Phase::Rejected => "rejected",
            Phase::Unmet => "unmet",
            Phase::Mismatched => "mismatched",
            Phase::Expired => "expired",
            Phase::Withdrawn => "withdrawn",
            Phase::Lost => "lost",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Step::Take => "take",
            Step::Miss => "miss",
            Step::Accept => "accept",
            Step::Reject => "reject",
            Step::Meet => "meet",
            Step::Differ => "differ",
            Step::Expire => "expire",
            Step::Withdraw => "withdraw",
            Step::Lose => "lose",
        })
    }
}
