//! A connection's flags.

/// The descriptor is in non-blocking mode (kept up to date once attached).
pub const NONBLOCK: u32 = 1;
/// The kernel socket had an event (data, end, reset) that has not been looked at.
pub const KERNEL_SOCKET: u32 = 1 << 1;
/// The program has shut its sending side.
pub const SHUT_WR: u32 = 1 << 2;
/// The program has shut its receiving side.
pub const SHUT_RD: u32 = 1 << 3;
/// The peer's FIN has been reached: end of file.
pub const EOF: u32 = 1 << 4;
/// The segment is corrupt: errors from now on.
pub const CORRUPT: u32 = 1 << 5;
/// The peer has left without a FIN: sends go to the kernel for its verdict.
pub const PEER_GONE: u32 = 1 << 6;
/// The connection was opened by `connect`.
pub const CONNECTOR: u32 = 1 << 7;
/// The meeting has counted this connection in the statistics.
pub const COUNTED: u32 = 1 << 8;
/// Being taken back to TCP: no thread may start anything new on the VI.
pub const FALLING_BACK: u32 = 1 << 9;
/// The direction in which we send has left the VI: what the receiver has not taken there, and returns, goes
/// on TCP before anything newer.
pub const LEFT_VI: u32 = 1 << 10;
/// All of that is on TCP, or will not be put there.
pub const DRAINED: u32 = 1 << 11;
/// The kernel socket has reported the peer's end, or an error.
pub const ENDED: u32 = 1 << 12;
/// The connection has, or had, a VI: its counts are its own.
pub const MET: u32 = 1 << 13;
/// Small messages are combined.
pub const COMBINES: u32 = 1 << 14;
/// Messages are handled by a thread of Sovia's, not by the program's calls.
pub const HANDLED: u32 = 1 << 15;
/// It is called back for each message that has arrived, rather than waiting for them.
pub const NOTIFIED: u32 = 1 << 16;
/// Such a call is on its way.
pub const CALLED: u32 = 1 << 17;
/// No process holds the peer's end any more. Its kernel socket's FIN may be still to come.
pub const DEAD: u32 = 1 << 18;
/// The peer died before it had read all that this end sent: TCP would have reset the connection.
pub const RESET: u32 = 1 << 19;
/// An error is to be reported once.
pub const ERROR: u32 = 1 << 20;
/// The peer's end has not been reported to the program yet, because much lies unread before it.
pub const WITHHELD: u32 = 1 << 21;
/// A thread has died in the middle of a change of the body, which is to be made whole.
pub const TORN: u32 = 1 << 22;
/// A relay has it, in the place of a process that has left it to the relay.
pub const RELAYED: u32 = 1 << 23;
/// Epoll sets leave it to the kernel, which watches its kernel socket, though it is on a VI still.
pub const LEFT_TO_SETS: u32 = 1 << 24;
/// The direction in which we receive is on TCP, where the peer puts what was unread on the VI. It lies there
/// still, until all of it has come.
pub const RETURNING: u32 = 1 << 25;
/// The connection goes back to TCP as soon as the peer leaves no room: TCP_USER_TIMEOUT says for how long that
/// may last, and the kernel keeps to it. Until then a NIC between the two ends does.
pub const UNTIL_FULL: u32 = 1 << 26;
/// The other side of the segment is a NIC in software, which reflects the VI to the peer.
pub const REFLECTED: u32 = 1 << 27;
/// That NIC has said that nothing comes any more, and the program has been told.
pub const GONE: u32 = 1 << 28;
/// The receiver had shut both halves before it had all that this end sent: the kernel has been given a byte to reset the
/// connection for.
pub const LATE: u32 = 1 << 29;
/// `recvmsg` tells how many bytes are left, as TCP_INQ asks of it.
pub const TELLS_LEFT: u32 = 1 << 30;
/// This end has its VI, and its request for that has not been seen to be answered.
pub const UNANSWERED: u32 = 1 << 31;
