//! Configuration of a simulated network.

use core::time::Duration;
use sovia_link::stream::{Control, Timing};
use sovia_link::wire::Checksum;
use sovia_simnet::{Fabric, Link};
use via::Memory;

/// Source of the passing of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The program, by [`crate::Network::step`] and similar calls. Waiting calls also step, and their timeouts are
    /// virtual time. Use it with one thread: the seed then determines all events. Callbacks run in the stepping thread.
    #[default]
    Manual,
    /// The network itself: packets in flight arrive as fast as the machine computes, even while no thread waits.
    /// Timeouts of waiting calls are real time, because other threads, which may end the wait, compute in real time.
    /// Callbacks run in a thread of the NIC.
    Live,
}

/// Cost of registering memory for the calling thread, in virtual time. The time passes, with its events, before the
/// call returns. With [`Clock::Live`] the call does not get slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registering {
    /// Cost of each registration.
    pub register: Duration,
    /// Additional cost of a registration for each page (4 KB) that the memory touches.
    pub register_page: Duration,
    /// Cost of each deregistration.
    pub deregister: Duration,
    /// Additional cost of a deregistration for each page.
    pub deregister_page: Duration,
    /// Additional cost of both calls for each megabyte (2^20 bytes) of other memory registered with the NIC.
    pub beside_mb: Duration,
}

impl Registering {
    /// No cost.
    pub const FREE: Registering = Registering {
        register: Duration::ZERO,
        register_page: Duration::ZERO,
        deregister: Duration::ZERO,
        deregister_page: Duration::ZERO,
        beside_mb: Duration::ZERO,
    };

    /// Approximate cost on cLAN (ICS 2001, section 4.1 and figure 6). Both calls together take at least 3 to 4 µs, and
    /// longer for more data.
    pub const PUBLISHED: Registering = Registering {
        register: Duration::from_nanos(1_750),
        register_page: Duration::from_nanos(500),
        deregister: Duration::from_nanos(1_000),
        deregister_page: Duration::from_nanos(250),
        beside_mb: Duration::ZERO,
    };

    /// Cost on M-VIA (ICS 2001, section 4.1). Both calls together take 4.3 µs for 4 bytes if no other memory is
    /// registered, and 10.1 µs if 2 MB are registered. The cost per page is cLAN's, because none is published for
    /// M-VIA.
    pub const M_VIA: Registering = Registering {
        register: Duration::from_nanos(2_050),
        deregister: Duration::from_nanos(1_500),
        beside_mb: Duration::from_nanos(1_450),
        ..Registering::PUBLISHED
    };

    /// Returns true if registering costs nothing.
    pub fn is_free(&self) -> bool {
        *self == Registering::FREE
    }

    /// Returns the cost of registering memory, with `beside` bytes of other registered memory.
    pub(crate) fn registering(&self, memory: &Memory, beside: u64) -> Duration {
        self.register + self.register_page * pages(memory) + self.beside(beside)
    }

    /// Returns the cost of deregistering memory, with `beside` bytes of other registered memory.
    pub(crate) fn deregistering(&self, memory: &Memory, beside: u64) -> Duration {
        self.deregister + self.deregister_page * pages(memory) + self.beside(beside)
    }

    fn beside(&self, bytes: u64) -> Duration {
        self.beside_mb.mul_f64(bytes as f64 / f64::from(1 << 20))
    }
}

/// Returns the number of 4 KB pages that the memory touches.
fn pages(memory: &Memory) -> u32 {
    const PAGE: u64 = 4096;
    let (begin, end) = (memory.address(0), memory.address(memory.len()));
    u32::try_from(end.div_ceil(PAGE) - begin / PAGE).unwrap_or(u32::MAX)
}

/// Configuration of a network and its NICs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Behaviour of every link, until a [`sovia_simnet::Change::Link`].
    pub link: Link,
    /// Switches between the NICs; `link` then has no effect. With `None` each pair of NICs has a link.
    pub fabric: Option<Fabric>,
    /// Source of the passing of time.
    pub clock: Clock,
    /// Number of message bytes in one packet.
    pub mtu: u32,
    /// Largest number of unacknowledged packets in one direction of a connection.
    pub window: u32,
    /// Congestion control.
    pub control: Control,
    /// Shortest time to wait for an acknowledgement before packets are sent again.
    pub retransmit_first: Duration,
    /// Longest such time. Each wait without any answer is twice as long as the one before.
    pub retransmit_longest: Duration,
    /// Number of consecutive waits without an answer after which a connection is broken.
    pub retransmit_tries: u32,
    /// Cost of registering memory.
    pub registering: Registering,
}

impl Default for Config {
    /// Returns a perfect network with an MTU of 4 KB, which the program steps. A silent peer counts as lost after about
    /// a quarter of a second. Registering costs nothing.
    fn default() -> Config {
        Config {
            link: Link::perfect(),
            fabric: None,
            clock: Clock::Manual,
            mtu: 4096,
            window: 32,
            control: Control::Fixed,
            retransmit_first: Duration::from_millis(1),
            retransmit_longest: Duration::from_millis(16),
            retransmit_tries: 20,
            registering: Registering::FREE,
        }
    }
}

impl Config {
    /// Returns this configuration with other links.
    pub fn over(self, link: Link) -> Config {
        Config { link, ..self }
    }

    /// Returns this configuration with switches.
    pub fn through(self, fabric: Fabric) -> Config {
        Config { fabric: Some(fabric), ..self }
    }

    /// Returns this configuration with [`Clock::Live`].
    pub fn live(self) -> Config {
        Config { clock: Clock::Live, ..self }
    }

    /// Returns this configuration with a cost of registering.
    pub fn registering(self, registering: Registering) -> Config {
        Config { registering, ..self }
    }

    /// Returns the engine's configuration.
    pub(crate) fn engine(&self) -> sovia_softnic::Config {
        let timing = Timing {
            first: self.retransmit_first,
            longest: self.retransmit_longest,
            tries: Some(self.retransmit_tries),
        };
        let (mtu, window, control) = (self.mtu, self.window, self.control);
        let (probes, checksum) = (false, Checksum::Crc);
        sovia_softnic::Config { mtu, probes, window, control, timing, checksum }
    }
}
