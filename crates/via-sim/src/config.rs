//! What a simulated network is like.

use crate::stream::Timing;
use core::time::Duration;
use sovia_simnet::Link;

/// Who makes time pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The program, by [`crate::Network::step`] and its like; calls that wait step too, and their
    /// timeouts are virtual time. For one thread: everything that happens is then determined by
    /// the seed. Callbacks run in the thread that steps.
    #[default]
    Manual,
    /// The network itself: whatever is on its way arrives as fast as the machine can compute it,
    /// whether anybody waits or not. Timeouts of calls that wait are real time, because other
    /// threads, which may end the wait, compute in real time. Callbacks run in a thread of the
    /// NIC's.
    Live,
}

/// What a network and its NICs are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// What every link does, until it is changed ([`sovia_simnet::Change::Link`]).
    pub link: Link,
    /// Who makes time pass.
    pub clock: Clock,
    /// Bytes of a message that one packet carries.
    pub mtu: u32,
    /// Packets of one direction of a connection that may be on their way.
    pub window: u32,
    /// How long an acknowledgement is awaited at least before packets are sent again.
    pub retransmit_first: Duration,
    /// How long at most; each wait without any answer is twice the one before.
    pub retransmit_longest: Duration,
    /// Waits in a row without any answer after which a connection is broken.
    pub retransmit_tries: u32,
}

impl Default for Config {
    /// A perfect network with an MTU of 4 KB, stepped by the program; a silent peer is given up
    /// after about a quarter of a second.
    fn default() -> Config {
        Config {
            link: Link::perfect(),
            clock: Clock::Manual,
            mtu: 4096,
            window: 32,
            retransmit_first: Duration::from_millis(1),
            retransmit_longest: Duration::from_millis(16),
            retransmit_tries: 20,
        }
    }
}

impl Config {
    /// This, over links that behave like that.
    pub fn over(self, link: Link) -> Config {
        Config { link, ..self }
    }

    /// This, with time passing by itself.
    pub fn live(self) -> Config {
        Config { clock: Clock::Live, ..self }
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing {
            first: self.retransmit_first,
            longest: self.retransmit_longest,
            tries: self.retransmit_tries,
        }
    }
}
