//! A connection beside the one that a case tests.

use super::{Context, End, SOON};
use via::{Connection, NetAddress, Nic, Reliability, ViAttributes};

/// Largest number of messages in flight.
const AHEAD: usize = 32;
/// Largest number of words in a message.
const WORDS: usize = 16;
const PLACE: usize = WORDS * 8;
/// Number of the run's address at which the line's ends meet.
const AT: u8 = 255;

/// A second connection, by which the two roles synchronize. It also uses a VI. So a role that must make no call does
/// not use it meanwhile.
pub struct Line<'n, N: Nic> {
    end: End<'n, N>,
    far: Box<[u8]>,
    heard: core::cell::Cell<usize>,
}

impl<'n, N: Nic> Line<'n, N> {
    fn new(cx: &Context<'n, N>) -> Line<'n, N> {
        let offered = cx.nic.attributes().reliability;
        let best = [Reliability::RELIABLE_DELIVERY, Reliability::RELIABLE_RECEPTION];
        let level = best.into_iter().find(|&level| offered.contains(level));
        let reliability = level.unwrap_or(Reliability::UNRELIABLE);
        let attributes = ViAttributes { reliability, ..ViAttributes::default() };
        let end = End::with(cx, (AHEAD + 1) * PLACE, attributes);
        for i in 0..AHEAD {
            end.post_recv(i, i * PLACE, PLACE);
        }
        Line { end, far: cx.server.host.clone(), heard: Default::default() }
    }

    /// Makes the server's end, connected.
    pub fn server(cx: &Context<'n, N>) -> Line<'n, N> {
        let mut line = Line::new(cx);
        let connection = cx.nic.connect_wait(&cx.place(AT), SOON).unwrap();
        line.far = connection.remote_address().host.clone();
        connection.accept(&line.end.vi).unwrap();
        line
    }

    /// Makes the client's end, connected.
    pub fn client(cx: &Context<'n, N>) -> Line<'n, N> {
        let line = Line::new(cx);
        line.end.request_at(cx, &cx.place(AT)).unwrap();
        line
    }

    /// Returns an address of the other role's NIC.
    pub fn there(&self, cx: &Context<'n, N>, n: u8) -> NetAddress {
        cx.at(&self.far, n)
    }

    /// Sends a message of words.
    #[track_caller]
    pub fn tell(&self, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.end.write(AHEAD * PLACE, &bytes);
        self.end.send(AHEAD, AHEAD * PLACE, bytes.len());
    }

    /// Waits for the other role's next message, and returns it.
    #[track_caller]
    pub fn hear(&self) -> Vec<u64> {
        let i = self.heard.get() % AHEAD;
        self.heard.set(self.heard.get() + 1);
        let got = self.end.received();
        let len = got.result().expect("the other role has ended") as usize;
        let bytes = self.end.bytes(i * PLACE, len);
        self.end.post_recv(i, i * PLACE, PLACE);
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    /// Waits until both roles have called this.
    #[track_caller]
    pub fn meet(&self) {
        self.tell(&[]);
        self.hear();
    }
}
