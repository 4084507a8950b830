//! The four states of a VI and the transitions between them, as one table.
//!
//! VIA 1.0: a new VI is IDLE. A connection request makes it CONNECT_PENDING until the peer answers. A VI becomes
//! CONNECTED when it accepts a request or the peer accepts its request. An error or loss of a reliable connection makes
//! it ERROR, until the program disconnects the VI. An idle VI may connect again, and only an idle VI may be destroyed.

use core::fmt;

/// The state of a VI, with VIPL's values (`VIP_STATE_*`).
///
/// ```
/// use via::ViState;
/// use via::state::Event;
///
/// let state = ViState::Idle.after(Event::Request)?.after(Event::Accepted)?;
/// assert_eq!(state, ViState::Connected);
/// let error = state.after(Event::Destroy).unwrap_err();
/// assert_eq!(error.to_string(), "destroy is not possible in state CONNECTED");
/// # Ok::<(), via::state::IllegalTransition>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ViState {
    /// Not connected. The program may post receives.
    Idle = 0,
    /// Connected. The program may send and receive.
    Connected = 1,
    /// A connection request is pending.
    ConnectPending = 2,
    /// The connection is lost. All posted descriptors have been flushed, and new ones are flushed too.
    Error = 3,
}

/// An event of a VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The program requests a connection.
    Request,
    /// The peer accepted the request.
    Accepted,
    /// The request was rejected, timed out, or found no waiting program.
    Refused,
    /// The program accepts a request with this VI.
    Accept,
    /// The connection is lost, or an error broke it.
    Break,
    /// The program disconnects.
    Disconnect,
    /// The program destroys the VI.
    Destroy,
}

/// An event that the VI's state does not allow (`VIP_INVALID_STATE`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not possible in state {state}")]
pub struct IllegalTransition {
    /// The VI's state, which does not change.
    pub state: ViState,
    /// The rejected event.
    pub event: Event,
}

macro_rules! transitions {
    ($($event:ident { $($from:ident => $to:ident),+ $(,)? })+) => {
        impl ViState {
            /// Returns the state after `event`.
            ///
            /// # Errors
            /// [`IllegalTransition`] where the table has no entry.
            pub fn after(self, event: Event) -> Result<ViState, IllegalTransition> {
                match (event, self) {
                    $($((Event::$event, ViState::$from) => Ok(ViState::$to),)+)+
                    _ => Err(IllegalTransition { state: self, event }),
                }
            }
        }

        impl Event {
            /// Every event, in the table's order.
            pub const ALL: &[Event] = &[$(Event::$event),+];
        }
    };
}

transitions! {
    Request    { Idle => ConnectPending }
    Accepted   { ConnectPending => Connected }
    Refused    { ConnectPending => Idle }
    Accept     { Idle => Connected }
    Break      { Connected => Error, Error => Error }
    // Disconnecting an idle VI flushes its posted receives.
    Disconnect { Idle => Idle, ConnectPending => Idle, Connected => Idle, Error => Idle }
    Destroy    { Idle => Idle }
}

impl ViState {
    /// Every state, by VIPL's value.
    pub const ALL: &[ViState] =
        &[ViState::Idle, ViState::Connected, ViState::ConnectPending, ViState::Error];
}

impl fmt::Display for ViState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ViState::Idle => "IDLE",
            ViState::Connected => "CONNECTED",
            ViState::ConnectPending => "CONNECT_PENDING",
            ViState::Error => "ERROR",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Event::Request => "request",
            Event::Accepted => "accepted",
            Event::Refused => "refused",
            Event::Accept => "accept",
            Event::Break => "break",
            Event::Disconnect => "disconnect",
            Event::Destroy => "destroy",
        })
    }
}
