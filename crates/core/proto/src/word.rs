//! Words of shared memory through which the two ends of a direction exchange state, in addition to messages.
//!
//! Each direction has three cache lines of eight words: the writer's, the reader's and the path line. Every word
//! has one writer, except [`SWITCH`] and [`RETURNED`], which both ends change by compare-exchange
//! ([`crate::path`]). If the two ends share no memory, each end has its own segment, and NICs copy the words
//! between the segments. A compare-exchange then takes effect in the sender's segment.

/// Writer's line: number of bytes that the sender has coalesced so far.
pub const TAIL: usize = 0;
/// Writer's line: number of ordered packets that come before the coalesced bytes.
pub const AFTER: usize = 1;
/// Writer's line: value of [`TAIL`] when the sender last began to coalesce.
pub const START: usize = 2;
/// Writer's line: in the lower half the number of ordered packets that the sender has sent. In the upper half the
/// number of bytes in these packets. The sender may store both numbers late.
pub const LEDGER: usize = 3;
/// Writer's line: the sender's window, in packets.
pub const WINDOW: usize = 4;
/// Writer's line: 0 until the sender ends its stream. Then the path of the FIN, [`FIN_ON_VI`] or [`FIN_ON_TCP`].
pub const FIN: usize = 5;
/// Writer's line, written only by a NIC: the sender's answers to the receiver, one bit each ([`CONFIRMED`],
/// [`ACCEPTED`], [`REFUSED`]).
pub const ANSWER: usize = 6;
/// Writer's line, written only by a NIC: 0 as long as data or words of the sender may still arrive. Then the reason
/// why nothing more arrives. The sender has left ([`ENDED`]) or died ([`DIED`]), or the NICs have lost each other
/// ([`BROKEN`], [`TIMED_OUT`]).
pub const GONE: usize = 7;

/// Reader's line: number of coalesced bytes that the receiver has taken.
pub const HEAD: usize = 0;
/// Reader's line: number of bytes in the ordered packets that the program has read completely.
pub const TAKEN_BYTES: usize = 1;
/// Reader's line: in the lower half the number of messages that a receiver leaves unread when it leaves the VI. In
/// the upper half the number of these messages that come before the coalesced bytes.
pub const UNDELIVERED: usize = 2;
/// Reader's line: number of bytes that the program has read of the first message in [`UNDELIVERED`].
pub const FRONT: usize = 3;
/// Reader's line: not 0 once the receiver has claimed the switch. Used only if the two ends share no segment.
pub const CLAIM: usize = 4;

/// Reader's line: 0 until the receiver has seen TCP's end, then [`ENDED_THERE`] or [`ENDED_HERE`]. After
/// [`ENDED_THERE`] the receiver's NIC finds out whether the sender still holds its socket.
pub const ENDED_ON_TCP: usize = 5;
/// Reader's line, read only by the NIC of this end: time in milliseconds for which sent bytes may stay
/// unacknowledged (TCP_USER_TIMEOUT). 0 means TCP's own limit.
pub const USER_TIMEOUT: usize = 6;
/// Reader's line: size of the receiver's buffer in bytes (SO_RCVBUF) if the program has set one, else 0.
pub const HOLDS: usize = 7;

/// Path line: the sender's switch word ([`crate::path::Switch`]).
pub const SWITCH: usize = 0;
/// Path line: the receiver's grant word ([`crate::path::Grant`]).
pub const GRANT: usize = 1;
/// Path line: number of unread bytes that the receiver returns to the sender, plus one. Or the sender's refusal to
/// put these bytes on TCP ([`crate::path::REFUSED`]).
pub const RETURNED: usize = 2;
/// Path line: not 0 once the sender has put the returned bytes on TCP.
pub const DRAINED: usize = 3;
/// Path line: not 0 once a sender that took its switch back has put all bytes of the VI on TCP.
pub const TAKEN: usize = 4;
/// Path line: number of bytes that went over TCP before the switch.
pub const FROM: usize = 5;
/// Path line: not 0 once the sender has asked the receiver to move the connection back to TCP.
pub const ASKED: usize = 6;
/// Path line: not 0 once the receiver has shut both halves of its socket. If more bytes arrive after that, TCP
/// resets the connection. With NICs between the two ends, the word also says how many bytes arrived before the
/// shutdown.
pub const SHUT: usize = 7;

/// Value of [`GRANT`]: the receiver has closed.
pub const LEFT: u64 = 4;

/// Value of [`FIN`]: the sender ends its stream on the VI, by a FIN packet that it sends after this store.
pub const FIN_ON_VI: u64 = 1;
/// Value of [`FIN`]: the sender ends its stream on TCP.
pub const FIN_ON_TCP: u64 = 2;

/// Bit of [`ANSWER`]: the sender's NIC has seen the revoke. If [`SWITCH`] is 0 when this bit arrives, the sender
/// will not switch.
pub const CONFIRMED: u64 = 1;
/// Bit of [`ANSWER`]: the sender will put the bytes that the receiver returns on TCP.
pub const ACCEPTED: u64 = 2;
/// Bit of [`ANSWER`]: the sender does not put the bytes that the receiver returns on TCP.
pub const REFUSED: u64 = 4;

/// Value of [`GONE`]: the sender has left.
pub const ENDED: u64 = 1;
/// Value of [`GONE`]: the sender has died.
pub const DIED: u64 = 3;
/// Value of [`GONE`]: the NICs have lost each other, and data or words of the sender may be missing.
pub const BROKEN: u64 = 2;
/// Value of [`GONE`]: like [`BROKEN`], after the other host has not acknowledged data within the program's time
/// limit.
pub const TIMED_OUT: u64 = 4;

/// Value of [`ENDED_ON_TCP`]: the other end's host has ended TCP. Earlier bytes on the VI may still arrive.
pub const ENDED_THERE: u64 = 1;
/// Value of [`ENDED_ON_TCP`]: this host's own kernel has ended the connection, so the connection is over.
pub const ENDED_HERE: u64 = 2;
