//! The life of a request for a connection, from the moment it is made: declared once, for both
//! models.
//!
//! A provider keeps a [`Requester`] where a request is made and an [`Acceptor`] where it is
//! answered; both move a [`Phase`] by the table, step by step. What comes too late (the requester has
//! given up, and then is accepted) is an [`IllegalStep`] and changes nothing; so of two steps that
//! race, the one that is taken first under the provider's lock decides, and the other learns that it
//! has lost.
//!
//! Client–server: a request is made, meets a program that waits, is held by that program, and
//! is answered. A VI that does not fit is no answer: the program may try another. Peer–peer: each side
//! makes its own request and it stays until the other's is there; then there is nothing to answer,
//! and both are matched at once.

mod acceptor;
mod requester;

pub use acceptor::Acceptor;
pub use requester::{Model, Requester};

use crate::state::Event;
use core::fmt;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Made, and not taken yet: on its way to a waiting program, or to the peer's request.
    Requested,
    /// A program that waited has it and has not answered (client–server).
    Held,
    /// As [`Phase::Held`], and the last VI that the program tried to accept with does not fit.
    Unfit,
    /// Answered with a VI, or matched with the peer's request: the two VIs are connected.
    Accepted,
    /// Answered without one.
    Rejected,
    /// No program waited there, or there is no such place.
    Unmet,
    /// The two VIs differ in an attribute that must be the same.
    Mismatched,
    /// The time was over before an answer.
    Expired,
    /// The requester's program has disconnected or destroyed the VI before an answer.
    Withdrawn,
    /// The far side's process has ended before an answer, or cannot be talked to.
    Lost,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A waiting program takes it.
    Take,
    /// It turns out that no program waits.
    Miss,
    /// The program accepts it.
    Accept,
    /// The program rejects it, or drops it.
    Reject,
    /// The peer's request for it is there, and fits.
    Meet,
    /// The two VIs do not fit.
    Differ,
    /// The time is over.
    Expire,
    /// The requester's program does not want it any more.
    Withdraw,
    /// The far side's process ends, or cannot be talked to.
    Lose,
}

/// A step that comes too late, or that the model does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{step} is not possible for a request that is {phase}")]
pub struct IllegalStep {
    /// Where the request stands, and stays.
    pub phase: Phase,
    /// What was to happen.
    pub step: Step,
}

macro_rules! steps {
    ($($step:ident { $($from:ident => $to:ident),+ $(,)? })+) => {
        impl Phase {
            /// The phase after `step`.
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

    /// Whether nothing more happens to it.
    pub fn is_over(self) -> bool {
        !matches!(self, Phase::Requested | Phase::Held | Phase::Unfit)
    }

    /// What happens to the requesting VI with it; `None` while it is on its way. A withdrawn
    /// request's VI has been disconnected, which is that event.
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
