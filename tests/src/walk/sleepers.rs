//! Threads of an end that sleep in a call while steps are taken.

use super::calls::{poll, receive, said};
use super::sets;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Threads whose results have not been printed.
#[derive(Default)]
pub(super) struct Sleepers(Vec<Sleeper>);

struct Sleeper {
    name: String,
    result: Receiver<String>,
}

/// A call in which a thread sleeps.
pub(super) enum Sleep {
    /// `recv` with this room.
    Receive(usize),
    /// `poll` for these events.
    Poll(i16),
    /// `epoll_wait` in this instance.
    Events(i32),
    /// `send` of so many bytes, more than there is room for.
    Send(usize),
}

impl Sleepers {
    /// Starts a thread.
    pub(super) fn start(&mut self, name: &str, stream: i32, what: Sleep) -> String {
        let (tell, result) = channel();
        thread::spawn(move || {
            let seen = match what {
                Sleep::Receive(room) => receive(stream, room, 0),
                Sleep::Poll(events) => poll(stream, events, -1),
                Sleep::Events(instance) => sets::wait(instance, 4, -1),
                Sleep::Send(size) => send_all(stream, size),
            };
            let _ = tell.send(seen);
        });
        self.0.push(Sleeper { name: name.into(), result });
        "started".into()
    }

    /// Prints of each thread that it sleeps, or its result.
    pub(super) fn look(&mut self) -> String {
        let mut told = Vec::new();
        self.0.retain(|sleeper| match sleeper.result.try_recv() {
            Ok(seen) => {
                told.push(format!("{}: {seen}", sleeper.name));
                false
            }
            Err(_) => {
                told.push(format!("{} sleeps", sleeper.name));
                true
            }
        });
        if told.is_empty() { "none".into() } else { told.join(", ") }
    }
}

/// The number of bytes sent before an end or an error differs from stack to stack.
fn send_all(stream: i32, size: usize) -> String {
    let bytes = vec![0u8; size];
    // SAFETY: the buffer has that length.
    let sent = unsafe { libc::send(stream, bytes.as_ptr().cast(), size, libc::MSG_NOSIGNAL) };
    match usize::try_from(sent) {
        Ok(sent) if sent < size => "a part".into(),
        _ => said(sent),
    }
}
