//! The state of the model of one direction: the kernel's queue, the VI, the shared words, and
//! where each end stands. A byte of the stream is its own number, so what is read tells at once
//! whether it is the right one.

use crate::paths::carrier::Far;
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
    /// Bytes that kernel TCP holds unread.
    pub(crate) room: u8,
    /// The sender's program may shut its sending side, or close.
    pub(crate) closes: bool,
    /// The sender may retreat.
    pub(crate) sender_falls_back: bool,
    /// The receiver may retreat.
    pub(crate) receiver_falls_back: bool,
    /// The sender may be killed.
    pub(crate) sender_dies: bool,
    /// The sender may be stopped for ever.
    pub(crate) sender_stops: bool,
    /// The receiver may be killed.
    pub(crate) receiver_dies: bool,
    /// Either end's patience with the other may run out.
    pub(crate) impatience: bool,
    /// A thread that retreats may be killed or leave, at any step; others carry on.
    pub(crate) abandons: bool,
}

impl Limits {
    /// Both ends live and act, and TCP has room.
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
    /// Everything that may happen.
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

/// What both ends see; between hosts, what the sender's segment holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Shared {
    /// Unread items of the VI; gathered bytes are a part of it here.
    pub(crate) vi: Seq,
    pub(crate) switch: u64,
    /// The byte of the switch.
    pub(crate) from: u64,
    /// All bytes of a switch that was taken back are on TCP.
    pub(crate) taken_back: bool,
    pub(crate) grant: u64,
    pub(crate) returned: u64,
    /// All returned bytes are on TCP.
    pub(crate) drained: bool,
}

/// State of an end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mode {
    /// A process with Sovia; a relay is one, too.
    Library,
    /// The same, in the middle of a retreat.
    FallingBack,
    /// Any program, reading and writing the kernel's socket.
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
    /// A send on TCP: looks at the grant.
    Grant,
    Publish,
    GrantAgain,
    GrantGone,
    Unswitch,
    /// A call on the VI: looks for a revoke.
    Check,
    Put,
    /// Has put a byte; may put more without another look.
    More,
    /// Is revoked, between hosts: looks at its switch.
    AnswerLook,
    Answer,
    /// Owes: looks at the grant.
    Settle,
    /// Has seen it: looks at what was returned.
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

/// The call in which a sender is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Call {
    Send,
    /// The progress thread's.
    Serve,
    /// Begins a retreat: leaves the VI.
    Fallback,
    /// Ends it: settles what is owed.
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
    /// Next byte to send; all before have been accepted.
    pub(crate) next: u8,
    pub(crate) tcp_sent: u8,
    /// Bytes that it has put on the VI.
    pub(crate) own: Seq,
    /// Has sent ToTcp, and has perhaps to drain still.
    pub(crate) owes: bool,
    /// Of the returned bytes, so many.
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
    /// At most so many bytes from TCP.
    Recv(u8),
    /// Claims the switch, between hosts.
    Claim,
    LookAgain,
    EndAgain,
    Vi,
    Anchor,
    Rescan,
}

/// Next step of the receiver's fallback to TCP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum FallbackAt {
    /// There is none.
    Not,
    /// Its thread has gone away.
    Abandoned,
    Revoke,
    RevokeLook,
    RevokeEnter(u64),
    /// The same between hosts.
    Claim,
    /// Waits until its revoke is confirmed and its claim decided.
    AwaitSwitch,
    /// Waits until the sender has put what it took back on TCP.
    AwaitTakenBack,
    /// Looks at the VI.
    Look,
    /// Has seen so many bytes there, and no end: waits.
    Await(u8),
    /// Has seen TCP's end.
    LookAgain(u8),
    /// Has seen how the VI's part ends, and so many bytes before: says what becomes of them.
    Answer(Seen, u8),
    /// Waits until it is decided whether they are returned.
    AwaitVerdict,
    /// Has returned them.
    Return,
    AwaitDrained,
}

impl FallbackAt {
    /// No thread is in the middle of a step.
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
    /// Bytes are proposed to be returned, and it is not known here whether they are.
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
    /// The sender's anchor is shut, closed, or has died with its process.
    pub(crate) tcp_end: bool,
    pub(crate) shared: Shared,
    /// Between hosts: the receiver's segment, and what is on its way.
    pub(crate) far: Option<Far>,
    pub(crate) s: Sender,
    pub(crate) r: Receiver,
    /// The program has read a byte that was not the next one.
    pub(crate) wrong: bool,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            tcp: Seq::default(),
            tcp_end: false,
            shared: Shared::default(),
            far: None,
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
