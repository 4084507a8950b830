//! The state of a stream, from the request for its VI connection to its last packet: the diagram
//! of ICS figure 11 as a declared table, with TCP's names where its states are TCP's.
//!
//! Beyond the figure: DRAINING and LAST_DRAIN, in which the program has closed and bytes still
//! wait in the combining buffer, so FIN is not sent yet; and RESET, for a connection that is lost
//! or given up.

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
    /// There is no VI connection, and none is sought.
    Closed,
    /// A VI connection is being made: requested, or accepted, or both at once.
    Connecting,
    /// The VIs are connected and WAKEUP is sent; the peer's is awaited.
    Opening,
    /// Both ends may send.
    Normal,
    /// The program has closed its sending half; bytes wait before FIN.
    Draining,
    /// FIN is sent and not answered; the peer may still send.
    FinWait1,
    /// FIN is answered; the peer may still send.
    FinWait2,
    /// Both have sent FIN at once; ours is not answered.
    Closing,
    /// The peer has sent FIN; the program may still send.
    CloseWait,
    /// As CLOSE_WAIT, and the program has closed; bytes wait before FIN.
    LastDrain,
    /// The peer was first; our FIN is not answered.
    LastAck,
    /// Both FINs are sent and answered: the VI may be disconnected.
    Finished,
    /// The connection was lost before that, or given up.
    Reset,
}

/// What happens to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The program requests a connection, or accepts one.
    Connect,
    /// The VIs are connected; WAKEUP goes out.
    Connected,
    /// The VIs are not connected.
    Refused,
    /// The peer's WAKEUP is there.
    Wakeup,
    /// The program closes its sending half, or all of it.
    Shutdown,
    /// Nothing waits any more; FIN goes out.
    SendFin,
    /// The peer's FIN is there; FINACK goes out.
    Fin,
    /// The peer has answered our FIN.
    FinAck,
    /// The connection is lost, or the peer has broken the protocol.
    Lost,
    /// The program gives the connection up.
    Abort,
}

/// An event that the state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IllegalTransition {
    /// The state, which stays.
    pub state: State,
    /// What was to happen.
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
            /// The state after `event`.
            ///
            /// # Errors
            /// [`IllegalTransition`] where the table has no entry.
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
    // A program may close before the peer's WAKEUP: FIN waits for it.
    Shutdown  { Normal => Draining, CloseWait => LastDrain, Draining => Draining,
                FinWait1 => FinWait1, FinWait2 => FinWait2, Closing => Closing,
                LastDrain => LastDrain, LastAck => LastAck, Finished => Finished,
                Reset => Reset, Closed => Closed }
    SendFin   { Draining => FinWait1, LastDrain => LastAck }
    Fin       { Normal => CloseWait, Draining => LastDrain, FinWait1 => Closing,
                FinWait2 => Finished }
    FinAck    { FinWait1 => FinWait2, Closing => Finished, LastAck => Finished }
    // An end that has nothing more to say or hear loses nothing.
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

    /// Whether the program may write.
    #[inline]
    pub const fn may_write(self) -> bool {
        matches!(self, State::Opening | State::Normal | State::CloseWait)
    }

    /// Whether data may still be sent: new, or what waits.
    #[inline]
    pub const fn carries_data(self) -> bool {
        matches!(self, State::Normal | State::CloseWait | State::Draining | State::LastDrain)
    }

    /// Whether the peer may still send data.
    #[inline]
    pub const fn hears_data(self) -> bool {
        matches!(self, State::Normal | State::Draining | State::FinWait1 | State::FinWait2)
    }

    /// Whether the peer's FIN has come.
    #[inline]
    pub const fn peer_finished(self) -> bool {
        matches!(
            self,
            State::Closing | State::CloseWait | State::LastDrain | State::LastAck | State::Finished
        )
    }

    /// Whether nothing more happens.
    #[inline]
    pub const fn is_over(self) -> bool {
        matches!(self, State::Closed | State::Finished | State::Reset)
    }
}

impl Event {
    /// What goes out with it.
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
