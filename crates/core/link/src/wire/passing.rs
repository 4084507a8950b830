//! Frames as a switch sees them, which only passes them on.

use super::packet::{ACK, DATAGRAM, GONE, STREAM};
use super::{Checksum, EndId, Frame, Malformed, Meeting, Packet};

/// What a switch has to know of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passing {
    /// Something that one end of a connection says to the other.
    Ends {
        /// The end that receives it.
        to: EndId,
        /// The end that sends it.
        from: EndId,
        /// A receiver without such an end says so.
        is_answered: bool,
    },
    /// The peer of that end does not exist.
    Gone {
        /// The end that receives it.
        to: EndId,
    },
    /// A word about a connection that is to be.
    Meeting(Meeting),
}

impl Passing {
    /// Returns what a frame is about, and its bytes without padding. The checksum is compared only in a frame that sets up a
    /// connection: its body names the receiver. The receiver checks every frame.
    ///
    /// # Errors
    /// [`Malformed`]; a frame of channels is none for VIs.
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

    /// Whether a frame is whole, which a switch has to know before it says something of its own because of it.
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
