//! Shows a connection to other processes (readers), such as `sovia ps`.
//!
//! [`FIELDS`] has the position of each word that readers may read. Most of these are words that the engine itself
//! uses. [`Shown`] has further words, which are stored only for readers: at the beginning of a rendezvous, and when
//! the connection gets its VI.

use super::{Body, Conn, Protocol, flag};
use core::mem::offset_of;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_control::stats_page::{self, Configuration, Field, Word};
use sovia_control::{NicName, Reason, Traffic};
use sovia_proto::configuration::{Handling, Transfer};
use sovia_proto::flow::Parameters;
use sovia_proto::order::Taker;

/// Data that is stored only for readers. Its length is two cache lines, so it does not shift the following fields
/// of [`Conn`] within their cache lines.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shown {
    local: [AtomicU64; 2],
    peer: [AtomicU64; 2],
    ports: AtomicU64,
    /// Generation whose addresses `local`, `peer` and `ports` hold, plus one; 0 while these words are being
    /// written.
    generation: AtomicU64,
    configuration: AtomicU64,
    nic: [AtomicU64; 4],
    /// Reason, plus one, why the connection has no VI so far; 0 if there is none.
    doubt: AtomicU64,
    _rest: [AtomicU64; 4],
}

const _: () = assert!(size_of::<Shown>() == 128);

impl Conn {
    /// Stores the connection's addresses for readers, once per generation.
    pub(crate) fn show_addresses(&self, local: SocketAddr, peer: SocketAddr) {
        let shown = &self.shown;
        let generation = u64::from(self.generation()) + 1;
        if shown.generation.load(Ordering::Relaxed) == generation {
            return;
        }
        shown.generation.store(0, Ordering::Relaxed);
        for (words, address) in [(&shown.local, &local), (&shown.peer, &peer)] {
            let (high, low) = stats_page::pack_address(address);
            words[0].store(high, Ordering::Release);
            words[1].store(low, Ordering::Release);
        }
        let ports = u64::from(local.port()) | u64::from(peer.port()) << 16;
        shown.ports.store(ports, Ordering::Release);
        shown.nic.iter().for_each(|word| word.store(0, Ordering::Release));
        shown.doubt.store(0, Ordering::Release);
        shown.generation.store(generation, Ordering::Release);
    }

    /// Stores for readers why a process that answered was not accepted as the other end. Another process may still
    /// answer.
    pub(crate) fn show_doubt(&self, reason: Reason) {
        self.shown.doubt.store(reason as u64 + 1, Ordering::Relaxed);
    }

    /// Stores the reason why the connection must stay on TCP for now, or `None`.
    pub(crate) fn keep_for(&self, reason: Option<Reason>) {
        if self.approach.keep_for(reason) {
            let word = reason.map_or(0, |reason| reason as u64 + 1);
            self.shown.doubt.store(word, Ordering::Relaxed);
        }
    }

    /// Stores for readers the name of the NIC in software that will carry the connection.
    pub(crate) fn show_nic(&self, name: &NicName) {
        let bytes = name.as_str().as_bytes();
        for (word, chunk) in self.shown.nic.iter().zip(bytes.chunks(8)) {
            let byte = |at: usize| chunk.get(at).copied().unwrap_or(0);
            word.store(u64::from_ne_bytes(core::array::from_fn(byte)), Ordering::Relaxed);
        }
    }

    /// Stores the connection's protocol settings for readers.
    pub(super) fn show_configuration(&self, flow: Parameters, protocol: &Protocol) {
        let handling = match protocol.handling {
            Handling::Single => stats_page::Handling::Single,
            Handling::Handler => stats_page::Handling::Handler,
            Handling::Notify => stats_page::Handling::Notify,
        };
        let transfer = match protocol.transfer {
            Transfer::Auto => stats_page::Transfer::Auto,
            Transfer::Reg => stats_page::Transfer::Reg,
            Transfer::Copy => stats_page::Transfer::Copy,
            Transfer::Hybrid { .. } => stats_page::Transfer::Hybrid,
        };
        let Parameters { window, threshold } = flow;
        let configuration = Configuration { window, threshold, handling, transfer };
        self.shown.configuration.store(configuration.word(), Ordering::Relaxed);
    }
}

const fn in_body(at: usize) -> usize {
    offset_of!(Conn, body) + at
}

const fn in_traffic(of: usize, at: usize) -> usize {
    in_body(of) + at
}

const fn in_shown(at: usize) -> usize {
    offset_of!(Conn, shown) + at
}

const fn is(word: Word, mask: u32) -> Field {
    Field::bit(word, offset_of!(Conn, flags), mask)
}

const NOW: usize = offset_of!(Body, traffic);
const PAST: usize = offset_of!(Body, past);

/// Position in [`Conn`] of each word that other processes may read.
pub(crate) const FIELDS: &[Field] = &[
    Field::half(Word::Generation, offset_of!(Conn, generation)),
    Field::half(Word::Phase, offset_of!(Conn, phase)),
    Field::half(Word::Sends, offset_of!(Conn, tx)),
    Field::half(Word::Receives, offset_of!(Conn, rx)),
    Field::whole(Word::References, offset_of!(Conn, references)),
    Field::half(Word::Transfers, offset_of!(Conn, transfers)),
    Field::whole(Word::TcpReceived, offset_of!(Conn, rx_tcp)),
    Field::whole(Word::TcpSent, offset_of!(Conn, tx_tcp)),
    Field::whole(Word::Cookie, offset_of!(Conn, cookie)),
    Field::half(Word::Stays, offset_of!(Conn, stay)),
    Field::half(Word::Leaves, offset_of!(Conn, leaves_for)),
    Field::half(Word::Sleeps, offset_of!(Conn, sleeps)),
    is(Word::IsConnector, flag::CONNECTOR),
    is(Word::HasMet, flag::MET),
    is(Word::Combines, flag::COMBINES),
    is(Word::HasHandler, flag::HAS_HANDLER),
    is(Word::Notified, flag::NOTIFIED),
    is(Word::Reflected, flag::REFLECTED),
    is(Word::FallsBack, flag::FALLING_BACK),
    is(Word::Relayed, flag::RELAYED),
    is(Word::ShutsSending, flag::SHUT_WR),
    is(Word::ShutsReceiving, flag::SHUT_RD),
    Field::whole(Word::LocalHigh, in_shown(offset_of!(Shown, local))),
    Field::whole(Word::LocalLow, in_shown(offset_of!(Shown, local) + 8)),
    Field::whole(Word::PeerHigh, in_shown(offset_of!(Shown, peer))),
    Field::whole(Word::PeerLow, in_shown(offset_of!(Shown, peer) + 8)),
    Field::whole(Word::Ports, in_shown(offset_of!(Shown, ports))),
    Field::whole(Word::AddressesOf, in_shown(offset_of!(Shown, generation))),
    Field::whole(Word::Configuration, in_shown(offset_of!(Shown, configuration))),
    Field::whole(Word::Nic0, in_shown(offset_of!(Shown, nic))),
    Field::whole(Word::Nic1, in_shown(offset_of!(Shown, nic) + 8)),
    Field::whole(Word::Nic2, in_shown(offset_of!(Shown, nic) + 16)),
    Field::whole(Word::Nic3, in_shown(offset_of!(Shown, nic) + 24)),
    Field::whole(Word::Doubts, in_shown(offset_of!(Shown, doubt))),
    Field::whole(Word::BytesSent, in_traffic(NOW, offset_of!(Traffic, bytes_sent))),
    Field::whole(Word::MessagesSent, in_traffic(NOW, offset_of!(Traffic, messages_sent))),
    Field::whole(Word::BytesReceived, in_traffic(NOW, offset_of!(Traffic, bytes_received))),
    Field::whole(Word::MessagesHandled, in_traffic(NOW, offset_of!(Traffic, messages_handled))),
    Field::whole(
        Word::MessagesRegistered,
        in_traffic(NOW, offset_of!(Traffic, messages_registered)),
    ),
    Field::whole(Word::PastBytesSent, in_traffic(PAST, offset_of!(Traffic, bytes_sent))),
    Field::whole(Word::PastMessagesSent, in_traffic(PAST, offset_of!(Traffic, messages_sent))),
    Field::whole(Word::PastBytesReceived, in_traffic(PAST, offset_of!(Traffic, bytes_received))),
    Field::whole(
        Word::PastMessagesHandled,
        in_traffic(PAST, offset_of!(Traffic, messages_handled)),
    ),
    Field::whole(
        Word::PastMessagesRegistered,
        in_traffic(PAST, offset_of!(Traffic, messages_registered)),
    ),
    Field::half(Word::PacketsTaken, in_body(offset_of!(Body, taker)) + offset_of!(Taker, packets)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::Phase;
    use sovia_proto::path::{Rx, Tx};

    /// Checks that the engine's enums have the same numbers as the enums that readers use.
    #[test]
    fn numbers_mean_the_same_to_readers() {
        let phases = [Phase::Free, Phase::Eligible, Phase::Attached, Phase::Plain];
        assert!(phases.iter().zip(stats_page::Phase::ALL).all(|(&a, &b)| a as u32 == b as u32));
        let sends = [Tx::Tcp, Tx::Vi, Tx::Back];
        assert!(sends.iter().zip(stats_page::Sends::ALL).all(|(&a, &b)| a as u32 == b as u32));
        let receives = [Rx::Tcp, Rx::Granted, Rx::Vi, Rx::Back];
        assert!(
            receives.iter().zip(stats_page::Receives::ALL).all(|(&a, &b)| a as u32 == b as u32)
        );
    }

    #[test]
    fn every_word_lies_within_a_connection_and_is_shown_once() {
        let mut words: Vec<Word> = FIELDS.iter().map(|field| field.word).collect();
        words.sort_unstable();
        assert_eq!(words, Word::ALL);
        assert!(FIELDS.iter().all(|field| (field.at as usize) < size_of::<Conn>()));
    }
}
