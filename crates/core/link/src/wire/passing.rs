//! Parses only the fields that a switch needs to forward a frame.

use super::packet::{ACK, DATAGRAM, GONE, STREAM};
use super::{Checksum, EndId, Frame, Malformed, Meeting, Packet};

/// The fields that a switch needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passing {
    /// A frame from one end of a connection to the other.
    Ends {
        /// The receiving end.
        to: EndId,
        /// The sending end.
        from: EndId,
        /// Set if a receiver without such an end must answer.
        is_answered: bool,
    },
    /// The peer of the end `to` does not exist.
    Gone {
        /// The receiving end.
        to: EndId,
    },
    /// A frame about a future connection.
    Meeting(Meeting),
}

impl Passing {
    /// Returns a frame's fields, and its bytes without padding. Verifies the checksum only of a frame of the
    /// rendezvous, whose body names the receiver. The receiver checks every frame.
    ///
    /// # Errors
    /// [`Malformed`], also for a frame of a channel, which a switch of VIs does not forward.
    pub fn of(bytes: &[u8], link: Checksum) -> Result<(Passing, &[u8]), Malformed> {
        let frame = Frame::passing(bytes)?;
        let (kind, to, from) = (frame.kind(), frame.to(), frame.from());
        let whole = frame.whole();
        let passing = match kind {
            STREAM | ACK => Passing::Ends { to, from, is_answered: true },
            DATAGRAM => Passing::Ends { to, from, is_answered: false },
            GONE if from == EndId::NONE => Passing::Gone { to },
            GONE => return Err(Malformed::Value("ends")),
            _ => match Packet::parse_for(whole, link)? {
                Packet::Meeting(meeting) => Passing::Meeting(meeting),
                _ => return Err(Malformed::Kind(kind)),
            },
        };
        Ok((passing, whole))
    }

    /// Returns true if a frame is complete and intact. A switch checks this before it answers a frame itself.
    pub fn is_whole(bytes: &[u8], link: Checksum) -> bool {
        Packet::parse_for(bytes, link).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Report, Word};

    fn frame(word: &Word) -> Vec<u8> {
        let mut frame = Vec::new();
        word.emit(&mut frame);
        frame
    }

    #[test]
    fn ends_are_seen_through_padding_and_damage() {
        let (to, from) = (EndId(7), EndId(8));
        let mut bytes = frame(&Word::Ack { to, from, report: Report::plain(1) });
        let len = bytes.len();
        bytes.extend([0; 9]);
        *bytes.last_mut().unwrap() = 1;
        bytes[30] ^= 1;
        let seen = Passing::Ends { to, from, is_answered: true };
        assert_eq!(Passing::of(&bytes, Checksum::Crc), Ok((seen, &bytes[..len])));
        assert!(!Passing::is_whole(&bytes, Checksum::Crc));
        bytes[30] ^= 1;
        assert!(Passing::is_whole(&bytes, Checksum::Crc));
    }

    #[test]
    fn words_about_connections_are_looked_at_whole() {
        let meeting = Meeting::Settled { request: EndId(9), connected: true };
        let mut bytes = frame(&Word::Meeting(meeting.clone()));
        let of = |bytes: &[u8]| Passing::of(bytes, Checksum::Crc).map(|(passing, _)| passing);
        assert_eq!(of(&bytes), Ok(Passing::Meeting(meeting)));
        bytes[28] ^= 1;
        assert_eq!(of(&bytes), Err(Malformed::Checksum));
        let hello = frame(&Word::Hello { to: EndId(1), from: EndId(2) });
        assert_eq!(of(&hello), Err(Malformed::Kind(5)));
        assert_eq!(of(&bytes[..27]), Err(Malformed::Short));
    }
}
