//! The path of each direction of a stream, which is kernel TCP or the VI, and the change of the path.
//!
//! A stream starts on its kernel socket. Once both ends have a VI for the stream, each direction takes these steps:
//!
//! 1. The receiver **grants** the VI when its program reads from the socket or waits on it.
//! 2. The sender sees the grant before its next byte and **switches**. It publishes `n`, the number of bytes that
//!    it has put on TCP. It sends everything from byte `n` on over the VI.
//! 3. The receiver reads TCP up to byte `n`. Then it **enters** the VI, and publishes that it has entered.
//! 4. To go back to TCP, the sender sends a ToTcp packet as its last packet on the VI. The receiver must have
//!    entered before. If not, one read on TCP could return bytes from before the switch together with bytes from
//!    after ToTcp.
//! 5. The receiver reads the VI up to ToTcp, and then continues on TCP.
//!
//! A direction moves to the VI and back at most once.
//!
//! # Fallback
//!
//! A process sometimes has to leave the socket to the kernel for good, for example before an exec. The process then
//! moves both directions back to TCP. After that the program must get all unread bytes from the kernel.
//!
//! **As a receiver**, the process **revokes** the direction: it asks the sender to go back to TCP. If the sender
//! has switched but the receiver has not entered, the receiver claims the switch ([`revoke`]). Then the sender
//! cannot take the switch back, and must send ToTcp. A receiver that has claimed the switch still reads TCP up to
//! the switch before it reads the VI.
//!
//! The fallback looks at the messages on the VI up to ToTcp, and removes none of them. Then the fallback
//! **returns** the unread bytes before ToTcp: it publishes the number of these bytes. The sender **drains** the
//! returned bytes: it copies them from the VI to TCP, ahead of any newer byte. The receiver then reads the returned
//! bytes from TCP.
//!
//! The returned bytes also stay on the VI. If TCP ends before the sender has drained all returned bytes, a reader
//! reads the missing ones on the VI ([`rescue`]). So no byte is lost if the sender closes or dies while it drains.
//!
//! The receiver cannot return bytes if the sender has refused to drain, has sent FIN, has died or does not answer.
//! Then the fallback has failed. The receiver reads as if there had been no fallback: TCP up to the switch, then
//! the VI, then TCP. If the program must leave the socket to the kernel, a relay process reads for the program.
//!
//! A thread may stop after any step of a receiver's fallback. Another thread that shares the direction can then
//! begin the fallback anew. Other threads may read TCP or the VI during a fallback. If such a reader reaches ToTcp,
//! it returns 0 bytes to the sender. Two rules hold:
//!
//! - No step of a fallback is taken in the middle of another thread's read.
//! - No thread reads returned bytes on the VI while TCP may still bring them.
//!
//! To keep the rules, a thread holds a lock while it looks at the VI and returns bytes. A thread holds the same
//! lock while it looks at the switch and reads TCP.
//!
//! **As a sender**, the process sends ToTcp, or takes back a switch that the receiver has not claimed. After ToTcp
//! the sender **owes** the receiver the bytes that the receiver may return. The sender settles this debt ([`owed`])
//! before its next byte on TCP. If the program sends nothing more, the sender settles the debt after its receiving
//! direction is back on TCP. So two ends that fall back at the same time find each other's revoke, and drain for
//! each other. If the receiver has not revoked when the sender settles the debt, the sender **refuses** to drain.
//! The receiver then reads its unread bytes on the VI.
//!
//! If a process is killed, no byte is lost that a send call has accepted. If a sender is stopped while it drains or
//! takes a switch back, the affected bytes wait until the sender continues.
//!
//! The functions of this module only make decisions. Their callers load and store the shared words. `tests/paths`
//! checks every interleaving of two ends that decide by these functions.
//!
//! If the two ends share no memory, NICs carry the words between two segments. [`event`] describes the NICs'
//! messages and the order of these messages. [`reflected`] has the decisions of a receiver that must wait for the
//! sender's NIC.

pub mod event;
mod fallback;
pub mod reflected;
#[cfg(test)]
mod tests;
mod words;

pub use fallback::{
    Await, Owed, Rest, Revoke, Seen, answer, awaits_drain, on_tcp, owed, rest, revoke, revokes,
};
pub use words::{
    CANCELLED, ENTERED, Grant, REFUSED, Returned, Rx, Switch, Tx, returned_word, switch_word,
};

/// Next source of bytes for a receiver that has granted the VI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// TCP. The sender has not switched, so all bytes on TCP come before any byte on the VI.
    Tcp,
    /// TCP, up to the switch: at most this many bytes.
    TcpUpTo(u64),
    /// The VI, which the receiver must now enter. If the receiver's fallback has claimed the switch
    /// ([`Switch::Entered`]), the receiver changes neither the switch word nor [`Grant::Revoked`] in the grant
    /// word.
    Vi,
    /// None, because the peer broke the protocol: its switch lies before bytes that the receiver has already read
    /// from TCP.
    Impossible,
}

/// Returns the source of the receiver's next bytes. `switch` is the sender's switch word. `read` is the number of
/// bytes read from TCP in this direction.
///
/// If the receiver's next read of TCP returns no bytes or an error, the receiver must load the switch word again
/// and repeat this call. The sender may have switched, sent on the VI and closed since the first load.
pub const fn source(switch: u64, read: u64) -> Source {
    match switch {
        0 | CANCELLED => Source::Tcp,
        word => {
            let n = (word & !ENTERED).saturating_sub(1);
            if read < n {
                Source::TcpUpTo(n - read)
            } else if read == n {
                Source::Vi
            } else {
                Source::Impossible
            }
        }
    }
}

/// Returns `Some(n)` if a receiver that has reached TCP's end must read missing bytes on the VI. The receiver must
/// first skip `n` bytes on the VI, which it has already read from TCP. If the VI has fewer bytes, the receiver
/// skips all of them.
///
/// Bytes are missing on TCP if the sender died or closed before it had put all bytes there. Two kinds of bytes can
/// be missing:
///
/// - bytes of the VI whose sender took the switch back (`taken_back` is true once all of these bytes are on TCP)
/// - bytes that the receiver has returned (`drained` is true once all of these bytes are on TCP)
///
/// `from` is the number of bytes on TCP before the switch, and `read` is the number of bytes read from TCP.
pub const fn rescue(
    rx: Rx,
    switch: u64,
    taken_back: bool,
    returned: u64,
    drained: bool,
    from: u64,
    read: u64,
) -> Option<u64> {
    let missing = match (rx, Switch::from_word(switch)) {
        (Rx::Granted, Switch::Cancelled) => !taken_back,
        (Rx::Back, Switch::Entered(_)) => awaits_drain(returned, drained),
        _ => false,
    };
    if missing { Some(read.saturating_sub(from)) } else { None }
}

/// First step of a sender that has bytes to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeforeSend {
    /// Puts the bytes on TCP.
    Tcp,
    /// Publishes a switch to the VI, and then loads the grant again ([`keeps_switch`]).
    Switch,
    /// Puts the bytes on the VI.
    Vi,
    /// Answers the receiver's revoke: sends ToTcp as the last packet on the VI.
    Answer,
    /// Takes the steps that [`owed`] returns, and then calls [`before_send`] again.
    Settle,
}

/// Returns the first step of a sender that has bytes to send. `owes` is true after the sender has sent ToTcp, until
/// [`owed`] has returned [`Owed::Nothing`].
pub const fn before_send(tx: Tx, grant: Grant, owes: bool) -> BeforeSend {
    match (tx, grant) {
        (Tx::Tcp, Grant::Granted) => BeforeSend::Switch,
        (Tx::Vi, Grant::Revoked) => BeforeSend::Answer,
        (Tx::Vi, _) => BeforeSend::Vi,
        (Tx::Back, _) if owes => BeforeSend::Settle,
        _ => BeforeSend::Tcp,
    }
}

/// Returns true if the sender may keep a switch that it has just published. `grant` is a second load of the grant
/// word, after the store of the switch and a full fence.
///
/// If the result is false, the receiver may have revoked before it could see the switch. Then the sender must take
/// the switch back by compare-exchange. If the exchange fails, the receiver has entered or claimed the switch, and
/// the sender keeps the switch.
pub const fn keeps_switch(grant: Grant) -> bool {
    !matches!(grant, Grant::Revoked)
}

/// Way in which a sender leaves the VI when its own process falls back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Publishes nothing.
    Quietly,
    /// Takes the switch back: replaces this switch word by [`CANCELLED`], then puts the VI's bytes on TCP. If the
    /// compare-exchange fails, the receiver has just entered, and the sender continues with [`Leave::End`].
    Cancel(u64),
    /// Sends ToTcp. After that the sender must drain bytes that the receiver returns ([`owed`]).
    End,
}

/// Returns the way in which the sender leaves the VI. After a FIN the stream ends on the VI, because the kernel
/// socket takes no more bytes.
///
/// If the receiver has not entered, the sender takes the switch back. With ToTcp instead, a call of the receiver
/// that is about to read TCP could return older and newer bytes together.
///
/// If the receiver has shut both halves (`is_shut`), the sender sends ToTcp and puts no bytes on TCP. Bytes on TCP
/// would make the receiver's kernel reset the connection.
pub const fn leave(tx: Tx, switch: u64, fin_sent: bool, is_shut: bool) -> Leave {
    match (tx, Switch::from_word(switch)) {
        (Tx::Vi, Switch::At(_)) if !fin_sent && is_shut => Leave::End,
        (Tx::Vi, Switch::At(_)) if !fin_sent => Leave::Cancel(switch),
        (Tx::Vi, Switch::Entered(_)) if !fin_sent => Leave::End,
        _ => Leave::Quietly,
    }
}
