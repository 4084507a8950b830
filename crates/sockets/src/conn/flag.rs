//! Flags of a connection.

/// Set while the descriptor is in non-blocking mode. Valid only while the connection has a VI.
pub const NONBLOCK: u32 = 1;
/// Set after an event of the kernel socket (data, end, reset) that no thread has examined yet.
pub const KERNEL_SOCKET: u32 = 1 << 1;
/// Set once the program has shut down its sending half.
pub const SHUT_WR: u32 = 1 << 2;
/// Set once the program has shut down its receiving half.
pub const SHUT_RD: u32 = 1 << 3;
/// Set once a receive has reached the peer's FIN. Later receives return end of file.
pub const EOF: u32 = 1 << 4;
/// Set once the segment is found corrupt, or the connection was broken off. Later calls fail.
pub const CORRUPT: u32 = 1 << 5;
/// Set once the peer has died, reset the connection or closed it. Later sends go to the kernel, which returns the
/// error.
pub const PEER_GONE: u32 = 1 << 6;
/// Set if this end opened the connection with `connect`.
pub const CONNECTOR: u32 = 1 << 7;
/// Set once the statistics have counted whether this connection got a VI or stayed on TCP.
pub const COUNTED: u32 = 1 << 8;
/// Set during a fallback to TCP. No thread may begin a new send or receive on the VI.
pub const FALLING_BACK: u32 = 1 << 9;
/// Set once this end has stopped sending on the VI. Then unread bytes of the VI must go on TCP before newer bytes,
/// if the receiver asks for this.
pub const LEFT_VI: u32 = 1 << 10;
/// Set after [`LEFT_VI`], once all unread bytes of the VI are on TCP, or if this end will not put them there.
pub const DRAINED: u32 = 1 << 11;
/// Set once the kernel socket has reported the peer's end, or an error.
pub const ENDED: u32 = 1 << 12;
/// Set once the connection has got a VI. Before that, the slot has the traffic counts of an earlier connection.
pub const MET: u32 = 1 << 13;
/// Set while this end combines small messages.
pub const COMBINES: u32 = 1 << 14;
/// Set while a handler thread of Sovia takes messages off the ring. If not set, the program's calls do this.
pub const HAS_HANDLER: u32 = 1 << 15;
/// Set if the handler thread is one that is called for each message (SOVIA_NOTIFY), rather than one that waits for
/// messages (SOVIA_HANDLER).
pub const NOTIFIED: u32 = 1 << 16;
/// Set while a call of the handler thread for this connection is pending (SOVIA_NOTIFY).
pub const CALLED: u32 = 1 << 17;
/// Set once no process holds the peer's end any more. The FIN of the peer's kernel socket may arrive later.
pub const DEAD: u32 = 1 << 18;
/// Set if the peer died or closed before it had read all bytes that this end sent on the VI. TCP would reset such a
/// connection, so calls behave as after a reset.
pub const RESET: u32 = 1 << 19;
/// Set while the connection has an error that the next call must report.
pub const ERROR: u32 = 1 << 20;
/// Set while the peer's end is not reported to the program, because many unread bytes come before the end.
pub const WITHHELD: u32 = 1 << 21;
/// Set after a thread died while it held the connection's lock. The next holder of the lock repairs the body.
pub const TORN: u32 = 1 << 22;
/// Set once a process has handed the connection to a relay process, which holds the connection in place of that
/// process. Also set once a program has got the unread bytes in a Unix socket. Relatives that share the connection may
/// then miss bytes.
pub const RELAYED: u32 = 1 << 23;
/// Set if the connection stays on its VI, but the kernel watches its kernel socket for epoll sets.
pub const LEFT_TO_EPOLL_SETS: u32 = 1 << 24;
/// Set after this end has asked the sender to put unread bytes of the VI on TCP, until all these bytes have
/// arrived. Until then the bytes also stay on the VI.
pub const RETURNING: u32 = 1 << 25;
/// Set if the program has set TCP_USER_TIMEOUT. The sending direction then moves to TCP as soon as the VI is full,
/// because the kernel measures this timeout only for bytes on TCP.
pub const UNTIL_FULL: u32 = 1 << 26;
/// Set if this end shares the segment with a NIC in software, which reflects the VI to the peer.
pub const REFLECTED: u32 = 1 << 27;
/// Set once the NIC of a [`REFLECTED`] connection has reported that the peer sends no more, and the program has
/// been notified.
pub const GONE: u32 = 1 << 28;
/// Set once this end has sent a byte on TCP to cause a reset. The reset is due if the receiver shut both halves
/// before it had received all bytes.
pub const LATE: u32 = 1 << 29;
/// Set if the program has set TCP_INQ. `recvmsg` then reports the number of unread bytes.
pub const REPORTS_UNREAD: u32 = 1 << 30;
/// Set while this end has a VI, but does not know yet whether the peer has accepted the request for the VI.
pub const UNANSWERED: u32 = 1 << 31;
