//! Finds the longest frames that a path takes, by probes (RFC 8899, without the later search for a wider path).
//!
//! A message is split into parts before sending, and a part keeps its length in retransmissions. So parts are short at
//! first, as every path takes them. Parts become longer after a probe of that length has been answered. The first probe
//! has the longest length of this side's device, which most paths take. If that probe is lost, common lengths follow in
//! ascending order, until one is lost.

use core::time::Duration;
use sovia_link::Time;

/// Bytes of a frame that every path takes: IPv6 requires 1280, minus 48 for the headers of IPv6 and UDP.
const EVERY_PATH: u32 = 1232;
/// Bytes that common MTUs leave for a frame after UDP and IPv6: of tunnels, PPPoE, Ethernet, FDDI, jumbo frames, large
/// frames.
const COMMON: [u32; 7] = [1332, 1392, 1444, 1452, 4304, 8952, 16_336];
/// Number of probes of one length before the length counts as too long, and the wait for an answer. A later answer
/// counts too.
const TRIES: u32 = 3;
const WAIT: Duration = Duration::from_millis(100);

/// Longest frames on a path, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathMtu {
    /// The longest length that is known to arrive.
    passes: u32,
    /// The longest length that this side's device takes.
    possible: u32,
    asks: Asks,
    /// The probe that has not been answered.
    asked: Option<Asked>,
}

/// Lengths that are probed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// The longest possible length.
    Longest,
    /// Common lengths, because the longest one was lost.
    Common,
    /// None, because a common length was lost too.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    len: u32,
    tries: u32,
    /// When the probe counts as lost.
    until: Time,
}

impl PathMtu {
    /// Creates the state of a path that takes frames of up to `most` bytes.
    pub(crate) fn known(most: u32) -> PathMtu {
        PathMtu { passes: most, possible: most, asks: Asks::Nothing, asked: None }
    }

    /// Creates the state of an unknown path. This side's device takes `most` bytes.
    pub(crate) fn unknown(most: u32) -> PathMtu {
        let passes = most.min(EVERY_PATH);
        PathMtu { passes, possible: most, asks: Asks::Longest, asked: None }
    }

    /// Number of bytes of the longest frame that is known to arrive.
    pub(crate) fn frame_max(&self) -> u32 {
        self.passes
    }

    /// Returns when the current probe counts as lost.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.asked.map(|asked| asked.until)
    }

    /// Returns the length of a probe to send now, if one is due. The first one is due at once, so call it only when
    /// there is data to send: a connection that only receives needs no probes.
    pub(crate) fn poll_probe(&mut self, now: Time) -> Option<u32> {
        match self.asked {
            Some(asked) if asked.until > now => return None,
            Some(asked) if asked.tries == TRIES => {
                self.asked = None;
                self.asks = match self.asks {
                    Asks::Longest => Asks::Common,
                    _ => Asks::Nothing,
                };
            }
            _ => {}
        }
        let len = match self.asked {
            Some(asked) => asked.len,
            None => self.next()?,
        };
        let tries = self.asked.map_or(0, |asked| asked.tries) + 1;
        self.asked = Some(Asked { len, tries, until: now.after(WAIT) });
        Some(len)
    }

    /// Returns the next length to probe.
    fn next(&self) -> Option<u32> {
        let is_open = |len: &u32| (self.passes + 1..=self.possible).contains(len);
        match self.asks {
            Asks::Longest => Some(self.possible).filter(is_open),
            Asks::Common => COMMON.into_iter().find(is_open),
            Asks::Nothing => None,
        }
    }

    /// Processes an answer to a probe of length `len`, which is untrusted. Returns true if the known length has grown.
    pub(crate) fn answered(&mut self, len: u64) -> bool {
        let Some(len) = u32::try_from(len).ok().filter(|&len| len <= self.possible) else {
            return false;
        };
        let is_news = len > self.passes;
        self.passes = self.passes.max(len);
        self.asked = self.asked.filter(|asked| asked.len > self.passes);
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Probes until the search ends, over a path that takes `takes` bytes and loses the probes with these indices.
    /// Returns the number of probes and the time.
    fn search(path: &mut PathMtu, takes: u32, lost: &[usize]) -> (usize, Duration) {
        let (mut now, mut sent) = (Time::ZERO, 0);
        loop {
            while let Some(len) = path.poll_probe(now) {
                assert!(len > path.frame_max());
                if len <= takes && !lost.contains(&sent) {
                    assert!(path.answered(len.into()));
                }
                sent += 1;
            }
            match path.deadline() {
                Some(at) => now = at,
                None => return (sent, now.since(Time::ZERO)),
            }
        }
    }

    #[test]
    fn path_as_wide_as_the_device_takes_one_probe() {
        for most in [1500, 9000, 65_507] {
            let mut path = PathMtu::unknown(most);
            assert_eq!(path.frame_max(), 1232, "before it has been asked");
            assert_eq!(search(&mut path, most, &[]), (1, Duration::ZERO));
            assert_eq!(path.frame_max(), most);
        }
    }

    #[test]
    fn narrower_path_is_found_by_lengths_that_are_common() {
        for (takes, found) in [(1232, 1232), (1400, 1392), (1472, 1452), (8972, 8952)] {
            let mut path = PathMtu::unknown(65_507);
            search(&mut path, takes, &[]);
            assert_eq!(path.frame_max(), found);
            assert_eq!(path.poll_probe(Time::from_nanos(u64::MAX)), None, "it has been found");
        }
    }

    #[test]
    fn path_that_is_known_is_not_asked_about() {
        for mut path in [PathMtu::known(9000), PathMtu::unknown(1000)] {
            let before = path;
            assert_eq!(path.poll_probe(Time::ZERO), None);
            assert_eq!(path, before);
        }
    }

    #[test]
    fn answer_that_comes_late_counts_and_one_that_cannot_be_does_not() {
        let mut path = PathMtu::unknown(9000);
        search(&mut path, 0, &[]);
        assert_eq!(path.frame_max(), 1232);
        assert!(!path.answered(9001) && !path.answered(u64::MAX) && !path.answered(5));
        assert!(path.answered(9000) && !path.answered(9000));
        assert_eq!(path.frame_max(), 9000);
    }

    proptest! {
        #[test]
        fn what_is_found_passes_and_the_search_ends(
            most in 256u32..65_508, takes in 1232u32..65_508, lost: Vec<bool>,
        ) {
            let lost: Vec<usize> = (0..lost.len()).filter(|&n| lost[n]).collect();
            let mut path = PathMtu::unknown(most);
            let (sent, _) = search(&mut path, takes, &lost);
            prop_assert!(path.frame_max() <= takes.min(most).max(1232.min(most)));
            prop_assert!(sent <= (COMMON.len() + 1) * TRIES as usize);
        }
    }
}
