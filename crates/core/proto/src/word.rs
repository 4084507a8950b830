//! Words of a direction, by which its two ends exchange state beside the messages.
//!
//! Each direction has three lines of eight words. Every word has one writer, except [`SWITCH`] and [`RETURNED`],
//! which both ends change by compare-exchange ([`crate::path`]). If the two ends share no memory, a NIC at each end
//! carries the words to the other end. The sender's segment then decides the exchanges.

/// Writer's line: position of the end of the coalesced bytes.
pub const TAIL: usize = 0;
/// Writer's line: number of ordered packets that come before the coalesced bytes.
pub const AFTER: usize = 1;
/// Writer's line: coalesced position of the first byte in the overflow buffer.
pub const START: usize = 2;
/// Writer's line: number of ordered packets sent, and in the upper half the number of bytes in them. The values may
/// be old.
pub const LEDGER: usize = 3;
/// Writer's line: the window, in packets.
pub const WINDOW: usize = 4;
/// Writer's line: 0 until the sender ends its part, then [`FIN_ON_VI`] or [`FIN_ON_TCP`].
pub const FIN: usize = 5;
/// Writer's line, written only by a NIC: bits that answer the receiver ([`CONFIRMED`], [`ACCEPTED`], [`REFUSED`]).
pub const ANSWER: usize = 6;
/// Writer's line, written only by a NIC: 0 until the sender publishes nothing more and all that it published is
/// here. Then the reason: the sender has left ([`ENDED`]) or died ([`DIED`]), or the NICs have lost each other
/// ([`BROKEN`], [`TIMED_OUT`]).
pub const GONE: usize = 7;

/// Reader's line: number of coalesced bytes taken.
pub const HEAD: usize = 0;
/// Reader's line: number of bytes in the ordered packets that the program has read completely.
pub const TAKEN_BYTES: usize = 1;
/// Reader's line: number of messages that a receiver leaves unread when it leaves the VI. The upper half is the
/// number of these messages that come before the coalesced bytes.
pub const UNDELIVERED: usize = 2;
/// Reader's line: number of bytes that the program has read of the first of these messages.
pub const FRONT: usize = 3;
/// Reader's line: not 0 once the receiver has claimed the switch. Used only if the two ends share no segment.
pub const CLAIM: usize = 4;

/// Reader's line: 0 until the receiver's TCP has ended, then [`ENDED_THERE`] or [`ENDED_HERE`]. After
/// [`ENDED_THERE`] the receiver's NIC finds out whether the sender still holds its socket.
pub const ENDED_ON_TCP: usize = 5;
/// Reader's line, for this end's own NIC: time in milliseconds for which bytes that this end sends may stay
/// unacknowledged (TCP_USER_TIMEOUT). 0 means TCP's own limit.
pub const USER_TIMEOUT: usize = 6;
/// Reader's line: size of the receiver's buffer in bytes (SO_RCVBUF) if the program has set one, else 0.
pub const HOLDS: usize = 7;

/// Path line: the sender's switch.
pub const SWITCH: usize = 0;
/// Path line: the receiver's grant.
pub const GRANT: usize = 1;
/// Path line: number of bytes that a receiver which revoked leaves on the VI, plus one; or the sender's refusal
/// ([`crate::path::REFUSED`]).
pub const RETURNED: usize = 2;
/// Path line: not 0 once the sender has put the returned bytes on TCP.
pub const DRAINED: usize = 3;
/// Path line: not 0 once all bytes behind a switch that the sender took back are on TCP.
pub const TAKEN: usize = 4;
/// Path line: number of bytes that went over TCP before the switch.
pub const FROM: usize = 5;
/// Path line: not 0 if the sender asks the receiver to move the connection back to TCP.
pub const ASKED: usize = 6;
/// Path line: not 0 once the receiver has shut both halves. TCP resets a connection on which bytes arrive after
/// that. If a NIC is between the two ends, the word also says how many bytes had arrived before.
pub const SHUT: usize = 7;

/// Value of [`GRANT`]: the receiver has closed.
pub const LEFT: u64 = 4;

/// Value of [`FIN`]: the sender ends its part on the VI, by a packet that follows.
pub const FIN_ON_VI: u64 = 1;
/// Value of [`FIN`]: the sender has ended its part on TCP.
pub const FIN_ON_TCP: u64 = 2;

/// Bit of [`ANSWER`]: the sender's NIC has seen the revoke. The sender makes no switch except one that is here now.
pub const CONFIRMED: u64 = 1;
/// Bit of [`ANSWER`]: the sender knows how many bytes the receiver returns, and will put them on TCP.
pub const ACCEPTED: u64 = 2;
/// Bit of [`ANSWER`]: the sender had refused before the receiver returned bytes.
pub const REFUSED: u64 = 4;

/// Value of [`GONE`]: the sender has left.
pub const ENDED: u64 = 1;
/// Value of [`GONE`]: the sender has died.
pub const DIED: u64 = 3;
/// Value of [`GONE`]: data or words that the sender published may be missing.
pub const BROKEN: u64 = 2;
/// Value of [`GONE`]: like [`BROKEN`], because the other host has left data unacknowledged for the program's
/// time-out.
pub const TIMED_OUT: u64 = 4;

/// Value of [`ENDED_ON_TCP`]: TCP has ended. TCP's end may have overtaken bytes on the VI.
pub const ENDED_THERE: u64 = 1;
/// Value of [`ENDED_ON_TCP`]: this host's own kernel has ended the connection, so the connection is over.
pub const ENDED_HERE: u64 = 2;
