//! States of a stream, from the request for its VI connection to its last packet: ICS figure 11 as a declared
//! table.
//!
//! States that TCP also has are named as in TCP. Three states are not in the figure. In DRAINING and LAST_DRAIN the
//! program has closed, but FIN waits for bytes in the combining buffer. In RESET the connection is lost or aborted.

use crate::packet::Kind;
use core::fmt;

/// The state of a stream.
///
/// ```
/// use sovia_proto::state::{Event, State};
///
/// let state = State::Closed.after(Event::Connect).unwrap();
/// assert_eq!(state.after(Event::Refused), Ok(State::Closed));
/// assert!(state.after(Event::Shutdown).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// There is no VI connection, and no request for one.
    Closed,
    /// The program has requested or accepted a VI connection. The VIs are not connected yet.
    Connecting,
    /// The VIs are connected, and this end has sent WAKEUP. The peer's WAKEUP has not arrived.
    Opening,
    /// Both ends may send.
    Normal,
    /// The program has closed its sending half. FIN waits until the combined bytes are sent.
    Draining,
    /// This end has sent FIN, and the peer has not answered it. The peer may still send data.
    FinWait1,
    /// The peer has answered this end's FIN. The peer may still send data.
    FinWait2,
    /// Both ends sent FIN at the same time. The peer has not answered this end's FIN.
    Closing,
    /// The peer has sent FIN. The program may still send.
    CloseWait,
    /// The peer has sent FIN, and the program has closed the stream. This end's FIN waits until the combined bytes
    /// are sent.
    LastDrain,
    /// Both ends have sent FIN, the peer first. The peer has not answered this end's FIN.
    LastAck,
    /// Both FINs are sent and answered. The VI may be disconnected.
    Finished,
    /// The connection was lost or aborted before both FINs were answered.
    Reset,
}

/// An event in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The program requests a connection, or accepts one.
    Connect,
    /// The VIs are connected. This end sends WAKEUP.
    Connected,
    /// The VIs could not be connected.
    Refused,
    /// The peer's WAKEUP has arrived.
    Wakeup,
    /// The program closes its sending half, or the whole stream.
    Shutdown,
    /// All combined bytes are sent. This end sends FIN.
    SendFin,
    /// The peer's FIN has arrived. This end sends FINACK.
    Fin,
    /// The peer has answered this end's FIN.
    FinAck,
    /// The connection is lost, or the peer has broken the protocol.
    Lost,
    /// The program aborts the connection.
    Abort,
}

/// An event that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IllegalTransition {
    /// The state, which does not change.
    pub state: State,
    /// The event that the state does not allow.
    pub event: Event,
}

impl fmt::Display for IllegalTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not possible in state {}", self.event, self.state)
    }
}

impl core::error::Error for IllegalTransition {}

macro_rules! transitions {
    ($($event:ident { $($from:ident => $to:ident),+ $(,)? })+) => {
        impl State {
            /// Returns the state after `event`.
            ///
            /// # Errors
            /// [`IllegalTransition`] if the table has no entry for this state and event.
            pub const fn after(self, event: Event) -> Result<State, IllegalTransition> {
                match (event, self) {
                    $($((Event::$event, State::$from) => Ok(State::$to),)+)+
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
    Connect   { Closed => Connecting }
    Connected { Connecting => Opening }
    Refused   { Connecting => Closed }
    Wakeup    { Opening => Normal }
    // A program may close before the peer's WAKEUP arrives. `Session` then reports Shutdown after the WAKEUP.
    Shutdown  { Normal => Draining, CloseWait => LastDrain, Draining => Draining,
                FinWait1 => FinWait1, FinWait2 => FinWait2, Closing => Closing,
                LastDrain => LastDrain, LastAck => LastAck, Finished => Finished,
                Reset => Reset, Closed => Closed }
    SendFin   { Draining => FinWait1, LastDrain => LastAck }
    Fin       { Normal => CloseWait, Draining => LastDrain, FinWait1 => Closing,
                FinWait2 => Finished }
    FinAck    { FinWait1 => FinWait2, Closing => Finished, LastAck => Finished }
    // In the state Finished no packet is outstanding, so a lost connection changes nothing.
    Lost      { Connecting => Reset, Opening => Reset, Normal => Reset, Draining => Reset,
                FinWait1 => Reset, FinWait2 => Reset, Closing => Reset, CloseWait => Reset,
                LastDrain => Reset, LastAck => Reset, Finished => Finished, Reset => Reset }
    Abort     { Connecting => Reset, Opening => Reset, Normal => Reset, Draining => Reset,
                FinWait1 => Reset, FinWait2 => Reset, Closing => Reset, CloseWait => Reset,
                LastDrain => Reset, LastAck => Reset, Finished => Finished, Reset => Reset,
                Closed => Closed }
}

impl State {
    /// Every state.
    pub const ALL: &[State] = &[
        State::Closed,
        State::Connecting,
        State::Opening,
        State::Normal,
        State::Draining,
        State::FinWait1,
        State::FinWait2,
        State::Closing,
        State::CloseWait,
        State::LastDrain,
        State::LastAck,
        State::Finished,
        State::Reset,
    ];

    /// Returns true if the program may write.
    #[inline]
    pub const fn may_write(self) -> bool {
        matches!(self, State::Opening | State::Normal | State::CloseWait)
    }

    /// Returns true if this end may still send data: new bytes of the program, or combined bytes.
    #[inline]
    pub const fn carries_data(self) -> bool {
        matches!(self, State::Normal | State::CloseWait | State::Draining | State::LastDrain)
    }

    /// Returns true if the peer may still send data.
    #[inline]
    pub const fn receives_data(self) -> bool {
        matches!(self, State::Normal | State::Draining | State::FinWait1 | State::FinWait2)
    }

    /// Returns true if the peer's FIN has arrived.
    #[inline]
    pub const fn peer_finished(self) -> bool {
        matches!(
            self,
            State::Closing | State::CloseWait | State::LastDrain | State::LastAck | State::Finished
        )
    }

    /// Returns true if the stream is over: this end neither sends nor receives any more.
    #[inline]
    pub const fn is_over(self) -> bool {
        matches!(self, State::Closed | State::Finished | State::Reset)
    }
}

impl Event {
    /// Returns the kind of packet that this end sends at the event.
    pub const fn sends(self) -> Option<Kind> {
        match self {
            Event::Connected => Some(Kind::Wakeup),
            Event::SendFin => Some(Kind::Fin),
            Event::Fin => Some(Kind::FinAck),
            _ => None,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Closed => "CLOSED",
            State::Connecting => "CONNECTING",
            State::Opening => "OPENING",
            State::Normal => "NORMAL",
            State::Draining => "DRAINING",
            State::FinWait1 => "FIN_WAIT_1",
            State::FinWait2 => "FIN_WAIT_2",
            State::Closing => "CLOSING",
            State::CloseWait => "CLOSE_WAIT",
            State::LastDrain => "LAST_DRAIN",
            State::LastAck => "LAST_ACK",
            State::Finished => "FINISHED",
            State::Reset => "RESET",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Event::Connect => "connect",
            Event::Connected => "connected",
            Event::Refused => "refused",
            Event::Wakeup => "wakeup",
            Event::Shutdown => "shutdown",
            Event::SendFin => "send fin",
            Event::Fin => "fin",
            Event::FinAck => "finack",
            Event::Lost => "lost",
            Event::Abort => "abort",
        })
    }
}
