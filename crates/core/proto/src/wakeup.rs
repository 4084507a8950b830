//! WAKEUP: the first packet of a connection, which each end sends before any data.
//!
//! In the papers WAKEUP tells the peer's close thread that the program is awake again, and carries the sender's
//! address (ICS section 4.3). Here the addresses come with the VI connection. WAKEUP carries the sender's terms: the
//! number and length of its posted receives, and the threshold of its acknowledgements.
//!
//! From the two WAKEUP packets both ends compute the same common terms ([`Terms::agree`]). So the configurations of
//! the ends may differ, except in the handshake.

use crate::Violation;
use crate::configuration::{CHUNK_MAX, CHUNK_MIN, Configuration, Handshake, WINDOW_MAX};
use crate::flow::Parameters;

/// Length of a WAKEUP packet in bytes.
pub const LEN: usize = 16;

/// Names the protocol ("SOVIA over a VI") and its version.
const VERSION: u32 = 0x534f_5601;

/// Terms of one end: the limits and the handshake that its WAKEUP packet reports.
///
/// ```
/// use sovia_proto::configuration::Configuration;
/// use sovia_proto::wakeup::Terms;
///
/// let ours = Terms::of(&"w=32,t=16".parse::<Configuration>()?);
/// let theirs = Terms::of(&"w=8,t=2".parse::<Configuration>()?);
/// let agreed = ours.agree(Terms::decode(&theirs.encode())?)?;
/// assert_eq!((agreed.flow.window, agreed.flow.threshold), (8, 8));
/// assert_eq!(theirs.agree(ours)?, agreed);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Number of data packets for which the end has posted receives, and number of data packets after which the end
    /// sends an acknowledgement.
    pub flow: Parameters,
    /// Length in bytes of the longest packet that the end receives.
    pub chunk: u32,
    /// Handshake of the end.
    pub handshake: Handshake,
}

impl Terms {
    /// Returns the terms of an end with this configuration.
    pub const fn of(configuration: &Configuration) -> Terms {
        let Configuration { flow, chunk, handshake, .. } = *configuration;
        Terms { flow, chunk, handshake }
    }

    /// Encodes the terms for a packet.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.flow.window.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.flow.threshold.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.chunk.to_le_bytes());
        bytes[12] = match self.handshake {
            Handshake::TwoWay => 2,
            Handshake::ThreeWay => 3,
            Handshake::Rdma => 4,
        };
        bytes
    }

    /// Decodes received terms.
    ///
    /// # Errors
    /// [`Violation`] for another version, another length, or impossible values.
    pub fn decode(bytes: &[u8]) -> Result<Terms, Violation> {
        let Ok(&[v0, v1, v2, v3, w0, w1, t0, t1, c0, c1, c2, c3, handshake, ..]) =
            <&[u8; LEN]>::try_from(bytes)
        else {
            return Err(Violation("a WAKEUP of the wrong length"));
        };
        if u32::from_le_bytes([v0, v1, v2, v3]) != VERSION {
            return Err(Violation("a WAKEUP of another version"));
        }
        let window = u16::from_le_bytes([w0, w1]);
        let threshold = u16::from_le_bytes([t0, t1]);
        let chunk = u32::from_le_bytes([c0, c1, c2, c3]);
        let possible = (1..=WINDOW_MAX).contains(&window)
            && (1..=window).contains(&threshold)
            && (CHUNK_MIN..=CHUNK_MAX).contains(&chunk);
        let handshake = match handshake {
            2 if possible => Handshake::TwoWay,
            3 if possible => Handshake::ThreeWay,
            4 if possible => Handshake::Rdma,
            _ => return Err(Violation("a WAKEUP with impossible terms")),
        };
        Ok(Terms { flow: Parameters { window, threshold }, chunk, handshake })
    }

    /// Returns the common terms of this end and the peer. The peer computes the same result.
    ///
    /// The common window is the smaller of the two windows. The common threshold is the larger of the two
    /// thresholds, so that each end has posted enough receives for acknowledgements. The threshold is at most the
    /// window, because a larger threshold would never be reached.
    ///
    /// # Errors
    /// [`Violation`] if the two ends use different handshakes.
    pub fn agree(self, theirs: Terms) -> Result<Terms, Violation> {
        if self.handshake != theirs.handshake {
            return Err(Violation("uses another handshake"));
        }
        let window = self.flow.window.min(theirs.flow.window);
        let threshold = self.flow.threshold.max(theirs.flow.threshold).min(window);
        Ok(Terms {
            flow: Parameters { window, threshold },
            chunk: self.chunk.min(theirs.chunk),
            handshake: self.handshake,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::PRESETS;
    use proptest::prelude::*;

    fn terms() -> impl Strategy<Value = Terms> {
        let flow = (1..=WINDOW_MAX).prop_flat_map(|window| {
            (1..=window).prop_map(move |threshold| Parameters { window, threshold })
        });
        (flow, CHUNK_MIN..=CHUNK_MAX).prop_map(|(flow, chunk)| Terms {
            flow,
            chunk,
            handshake: Handshake::TwoWay,
        })
    }

    proptest! {
        #[test]
        fn both_ends_agree_on_terms_that_the_posted_receives_bear(a in terms(), b in terms()) {
            let agreed = a.agree(b).unwrap();
            prop_assert_eq!(Ok(agreed), b.agree(a));
            for own in [a, b] {
                prop_assert!(agreed.flow.receives() <= own.flow.receives());
                prop_assert!(agreed.chunk <= own.chunk);
            }
            prop_assert!(agreed.flow.threshold <= agreed.flow.window);
            prop_assert_eq!(Terms::decode(&a.encode()), Ok(a));
        }

        #[test]
        fn whatever_comes_is_terms_or_a_violation(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(terms) = Terms::decode(&bytes) {
                prop_assert_eq!(&terms.encode()[..13], &bytes[..13]);
            }
        }
    }

    #[test]
    fn a_handshake_is_the_same_at_both_ends() {
        let of = |name| Terms::of(&PRESETS.iter().find(|(n, _)| *n == name).unwrap().1);
        for one in ["SOVIA_BASE", "SOVIA_3WAY", "SOVIA_RDMA"] {
            assert_eq!(Terms::decode(&of(one).encode()), Ok(of(one)));
            for other in ["SOVIA_BASE", "SOVIA_3WAY", "SOVIA_RDMA"] {
                assert_eq!(of(one).agree(of(other)).is_ok(), one == other, "{one}, {other}");
            }
        }
        let agreed = of("SOVIA_BASE").agree(of("SOVIA_DACKS")).unwrap();
        assert_eq!(agreed.flow, Parameters { window: 1, threshold: 1 });
        let mut bytes = of("SOVIA_BASE").encode();
        bytes[0] ^= 1;
        assert_eq!(Terms::decode(&bytes), Err(Violation("a WAKEUP of another version")));
    }
}
