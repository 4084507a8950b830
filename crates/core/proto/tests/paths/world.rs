//! State of the model of one direction: the kernel's queue, the VI, the shared words, and the position of each end.
//!
//! A byte of the stream has its own number as its value. So the reader can check each byte at once.

use crate::paths::carrier::OtherHost;
use sovia_proto::path::{Grant, Rx, Seen, Tx};

/// A short queue of small numbers, packed so that states are cheap to copy and to hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Seq {
    items: u64,
    len: u8,
}

impl Seq {
    pub(crate) fn len(self) -> u8 {
        self.len
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(self, at: u8) -> u8 {
        (self.items >> (4 * at)) as u8 & 15
    }

    pub(crate) fn first(self) -> Option<u8> {
        (self.len > 0).then(|| self.get(0))
    }

    pub(crate) fn push(&mut self, item: u8) {
        assert!(self.len < 16 && item < 16, "the model outgrew its queue");
        self.items |= u64::from(item) << (4 * self.len);
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<u8> {
        let first = self.first()?;
        self.items >>= 4;
        self.len -= 1;
        Some(first)
    }
}

impl core::fmt::Debug for Seq {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries((0..self.len).map(|at| self.get(at))).finish()
    }
}

/// Items of the VI's queue that are not bytes.
pub(crate) const TO_TCP: u8 = 13;
pub(crate) const FIN: u8 = 14;

/// Events that a run of the model may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Bytes that the sender's program sends.
    pub(crate) bytes: u8,
    /// Number of unread bytes for which kernel TCP has room.
    pub(crate) room: u8,
    /// The sender's program may shut its sending side, or close.
    pub(crate) closes: bool,
    /// The sender may fall back to TCP.
    pub(crate) sender_falls_back: bool,
    /// The receiver may fall back to TCP.
    pub(crate) receiver_falls_back: bool,
    /// The sender may be killed.
    pub(crate) sender_dies: bool,
    /// The sender may be stopped for ever.
    pub(crate) sender_stops: bool,
    /// The receiver may be killed.
    pub(crate) receiver_dies: bool,
    /// Each end may run into its time limit while it waits for the other end.
    pub(crate) impatience: bool,
    /// A thread that carries out a fallback may be killed, or may return, at any step. Other threads continue.
    pub(crate) abandons: bool,
}

impl Limits {
    /// Both ends live and act, and TCP has room for all bytes.
    pub(crate) const CALM: Limits = Limits {
        bytes: 4,
        room: 16,
        closes: true,
        sender_falls_back: true,
        receiver_falls_back: true,
        sender_dies: false,
        sender_stops: false,
        receiver_dies: false,
        impatience: false,
        abandons: true,
    };
    /// All events may happen.
    pub(crate) const WILD: Limits = Limits {
        bytes: 4,
        room: 16,
        closes: true,
        sender_falls_back: true,
        receiver_falls_back: true,
        sender_dies: true,
        sender_stops: true,
        receiver_dies: true,
        impatience: true,
        abandons: true,
    };
}

/// The words that both ends see; between hosts, the sender's segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Shared {
    /// Unread items of the VI. They include coalesced bytes in this model.
    pub(crate) vi: Seq,
    pub(crate) switch: u64,
    /// Position of the byte at which the sender switched.
    pub(crate) from: u64,
    /// All bytes behind a switch that the sender took back are on TCP.
    pub(crate) taken_back: bool,
    pub(crate) grant: u64,
    pub(crate) returned: u64,
    /// All returned bytes are on TCP.
    pub(crate) drained: bool,
}

/// State of an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mode {
    /// A process under Sovia. It may also be a relay.
    Library,
    /// A process under Sovia in the middle of a fallback.
    FallingBack,
    /// Any program that reads and writes the kernel socket.
    Plain,
    /// Stopped for ever.
    Stopped,
    /// Closed, or dead.
    Gone,
}

/// Next step of the sender, one shared access at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SenderAt {
    Idle,
    /// Looks at the grant, in a send on TCP.
    Grant,
    Publish,
    GrantAgain,
    GrantGone,
    Unswitch,
    /// Looks for a revoke, in a call on the VI.
    Check,
    Put,
    /// Has put a byte on the VI, and may put more without another look.
    More,
    /// Looks at its switch after a revoke, between hosts.
    AnswerLook,
    Answer,
    /// Owes bytes, and looks at the grant.
    Settle,
    /// Has seen the grant, and looks at the returned word.
    Returned(Grant),
    Drain(u8),
    Drained,
    Kernel,
    Leave,
    Cancel(u64),
    TakeBack(u8),
    Refuse,
    ToTcp,
    Fin,
    Shut,
}

/// The call in which the sender is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Call {
    Send,
    /// A call of the progress thread.
    Serve,
    /// Begins a fallback: leaves the VI.
    Fallback,
    /// Ends a fallback: settles its debt.
    Settle,
    Shutdown,
    Close,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sender {
    pub(crate) mode: Mode,
    pub(crate) tx: Tx,
    pub(crate) at: SenderAt,
    pub(crate) call: Call,
    /// Next byte to send. All earlier bytes have been accepted.
    pub(crate) next: u8,
    pub(crate) tcp_sent: u8,
    /// Bytes that the sender has put on the VI.
    pub(crate) own: Seq,
    /// Set once the sender has sent ToTcp, while it may still have to drain bytes.
    pub(crate) owes: bool,
    /// Number of returned bytes that the sender has drained.
    pub(crate) drained: u8,
    /// FIN is on the VI.
    pub(crate) fin: bool,
    /// The program sends no more.
    pub(crate) shut: bool,
}

/// Next step of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ReaderAt {
    Idle,
    Grant,
    Look,
    Enter(u64),
    Entered,
    /// Reads at most this many bytes from TCP.
    Recv(u8),
    /// Claims the switch, between hosts.
    Claim,
    LookAgain,
    EndAgain,
    Vi,
    KernelSocket,
    Rescan,
}

/// Next step of the receiver's fallback to TCP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum FallbackAt {
    /// No fallback is under way.
    Not,
    /// The thread that carried out the fallback has ended.
    Abandoned,
    Revoke,
    RevokeLook,
    RevokeEnter(u64),
    /// Claims the switch, between hosts.
    Claim,
    /// Waits until the revoke is confirmed and the claim is decided.
    AwaitSwitch,
    /// Waits until the sender has put the bytes on TCP that it took back.
    AwaitTakenBack,
    /// Looks at the VI.
    Look,
    /// Has seen this many bytes on the VI and no end, and waits.
    Await(u8),
    /// Has seen TCP's end, after this many bytes on the VI.
    LookAgain(u8),
    /// Has seen the end of the VI's part, after this many bytes, and returns the bytes or keeps them.
    Answer(Seen, u8),
    /// Waits until the sender accepts or refuses the returned bytes.
    AwaitVerdict,
    /// Has returned the bytes.
    Return,
    AwaitDrained,
}

impl FallbackAt {
    /// Returns true if no thread is in the middle of a step.
    pub(crate) fn is_between_steps(self) -> bool {
        use FallbackAt::{Abandoned, Not};
        use FallbackAt::{Await, AwaitDrained, AwaitSwitch, AwaitTakenBack, AwaitVerdict};
        matches!(self, Not | Abandoned | AwaitTakenBack | Await(_) | AwaitDrained)
            || matches!(self, AwaitSwitch | AwaitVerdict)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Receiver {
    pub(crate) mode: Mode,
    pub(crate) rx: Rx,
    pub(crate) at: ReaderAt,
    pub(crate) fallback: FallbackAt,
    pub(crate) rx_tcp: u8,
    /// Set while bytes are proposed for return, and the receiver does not know the verdict.
    pub(crate) proposed: bool,
    /// Bytes that the program has read.
    pub(crate) read: u8,
    /// The program has seen the end of file.
    pub(crate) end: bool,
}

/// One direction of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    /// Bytes on kernel TCP.
    pub(crate) tcp: Seq,
    /// Set once the sender's kernel socket is shut, closed, or has died with its process.
    pub(crate) tcp_end: bool,
    pub(crate) shared: Shared,
    /// Between hosts: the receiver's segment, and the messages on their way.
    pub(crate) other_host: Option<OtherHost>,
    pub(crate) s: Sender,
    pub(crate) r: Receiver,
    /// Set if the program has read a byte that was not the next byte of the stream.
    pub(crate) wrong: bool,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            tcp: Seq::default(),
            tcp_end: false,
            shared: Shared::default(),
            other_host: None,
            s: Sender {
                mode: Mode::Library,
                tx: Tx::Tcp,
                at: SenderAt::Idle,
                call: Call::Send,
                next: 0,
                tcp_sent: 0,
                own: Seq::default(),
                owes: false,
                drained: 0,
                fin: false,
                shut: false,
            },
            r: Receiver {
                mode: Mode::Library,
                rx: Rx::Tcp,
                at: ReaderAt::Idle,
                fallback: FallbackAt::Not,
                rx_tcp: 0,
                proposed: false,
                read: 0,
                end: false,
            },
            wrong: false,
        }
    }
}
