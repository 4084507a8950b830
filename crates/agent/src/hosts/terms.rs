//! Terms that two agents exchange first in their secure conversation, before frames travel between their NICs.
//!
//! | offset | length | field, big-endian |
//! |---|---|---|
//! | 0 | 2 | version of the NICs' messages: 2 |
//! | 2 | 2 | 1 if the sender has a NIC that carries frames; else 0 |
//! | 4 | 4 | bytes of the longest frame that the sender accepts |
//! | 8 | 4 | number of the new channel; the value from the agent that has connected counts |
//! | 12 | 4 | sender's epoch in the new channel, not zero |
//! | 16 | 4 | number of the channel that the sender still has from an earlier conversation |
//! | 20 | 4 | sender's epoch in that channel; zero: there is none |
//! | 24 | 4 | receiver's epoch in that channel; zero: there is none |
//!
//! Each agent chooses its number and its epoch at random for each conversation. Each frame contains number and epochs
//! (docs/reference/wire.md). Another station does not know them, so neither NIC accepts frames from that station. If
//! both agents still have the old channel, the channel continues, and nothing that was on its way is lost. Otherwise
//! both forget the old channel and begin the new one.

use super::Channel;

/// Version of the messages of [`crate::wire`] and of `sovia-reflect`.
const VERSION: u16 = 2;
/// Smallest maximum frame length with which a NIC works.
const FRAME_LEAST: u32 = 512;
/// Bytes of encoded terms.
const LEN: usize = 28;

/// Terms of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) frame_max: u32,
    pub(super) channel: u32,
    pub(super) epoch: u32,
    /// Channel that the agent still has.
    pub(super) held: Option<Channel>,
    /// Set if the agent has a NIC that carries frames.
    pub(super) has_fabric: bool,
}

/// Reason why terms are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadTerms {
    /// The two agents have different versions.
    #[error(
        "that agent speaks version {0}, and this agent version {VERSION}: replace the older one"
    )]
    Version(u16),
    /// The terms are invalid.
    #[error("that agent sent invalid terms")]
    Nonsense,
}

impl Terms {
    /// Makes terms for a new conversation, with random numbers. Returns `None` if the kernel has no random bytes.
    pub(super) fn draw(frame_max: usize, held: Option<Channel>, has_fabric: bool) -> Option<Terms> {
        let frame_max = u32::try_from(frame_max).unwrap_or(u32::MAX);
        let mut bytes = [0; 8];
        let drawn = sovia_sys::call::getrandom(&mut bytes).ok()?;
        let [a, b, c, d, e, f, g, h] = bytes;
        let (channel, epoch) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        let epoch = epoch.max(1);
        let terms = Terms { frame_max, channel, epoch, held, has_fabric };
        (drawn == bytes.len()).then_some(terms)
    }

    pub(super) fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        bytes[2..4].copy_from_slice(&u16::from(self.has_fabric).to_be_bytes());
        let held = self.held.unwrap_or(Channel { number: 0, epochs: [0; 2] });
        let words = [self.frame_max, self.channel, self.epoch];
        let words = words.into_iter().chain([held.number]).chain(held.epochs);
        for (place, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Terms, BadTerms> {
        let &[high, low, ..] = bytes else { return Err(BadTerms::Nonsense) };
        let version = u16::from_be_bytes([high, low]);
        if version != VERSION {
            return Err(BadTerms::Version(version));
        }
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| BadTerms::Nonsense)?;
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let held = Channel { number: word(16), epochs: [word(20), word(24)] };
        let has_held = held.epochs != [0; 2];
        let terms = Terms {
            frame_max: word(4),
            channel: word(8),
            epoch: word(12),
            held: has_held.then_some(held),
            has_fabric: bytes[3] == 1,
        };
        let can_be = matches!(bytes[2..4], [0, 0 | 1])
            && terms.frame_max >= FRAME_LEAST
            && terms.epoch != 0
            && (has_held && !held.epochs.contains(&0) || word(16) == 0);
        can_be.then_some(terms).ok_or(BadTerms::Nonsense)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_survive_their_encoding_and_nothing_else_is_taken_for_some() {
        let held = Some(Channel { number: 7, epochs: [8, 9] });
        for (held, has_fabric) in [(None, false), (held, true)] {
            let terms = Terms::draw(1472, held, has_fabric).unwrap();
            assert_eq!(Terms::decode(&terms.encode()), Ok(terms));
        }
        let bytes = Terms::draw(1472, held, false).unwrap().encode();
        for len in 0..LEN {
            assert_eq!(Terms::decode(&bytes[..len]), Err(BadTerms::Nonsense), "{len}");
        }
        let with = |at: usize, new: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.splice(at..at + new.len(), new.iter().copied());
            Terms::decode(&bytes)
        };
        assert_eq!(with(0, &[0, 1]), Err(BadTerms::Version(1)));
        assert_eq!(with(3, &[2]), Err(BadTerms::Nonsense));
        assert_eq!(with(4, &[0, 0, 1, 255]), Err(BadTerms::Nonsense), "511 bytes");
        assert_eq!(with(12, &[0; 4]), Err(BadTerms::Nonsense), "no epoch");
        assert_eq!(with(20, &[0; 4]), Err(BadTerms::Nonsense), "half a channel");
        assert_eq!(with(20, &[0; 8]), Err(BadTerms::Nonsense), "a channel without epochs");
    }

    #[test]
    fn no_two_are_drawn_alike() {
        assert_ne!(Terms::draw(1472, None, false), Terms::draw(1472, None, false));
    }
}
