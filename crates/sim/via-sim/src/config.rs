//! What a simulated network is like.

use core::time::Duration;
use sovia_link::stream::{Control, Timing};
use sovia_link::wire::Checksum;
use sovia_simnet::{Fabric, Link};
use via::Memory;

/// What makes time pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// The program, by [`crate::Network::step`] and its like; calls that wait step too, and their
    /// timeouts are virtual time. For one thread: everything that happens is then determined by
    /// the seed. Callbacks run in the thread that steps.
    #[default]
    Manual,
    /// The network itself: whatever is on its way arrives as fast as the machine can compute it,
    /// whether a thread waits or not. Timeouts of calls that wait are real time, because other
    /// threads, which may end the wait, compute in real time. Callbacks run in a thread of the
    /// NIC's.
    Live,
}

/// What registering memory costs the calling thread, in virtual time: it passes, with what happens
/// meanwhile, before the call returns. Where time passes by itself ([`Clock::Live`]) the call is not
/// slower for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registering {
    /// To register any memory.
    pub register: Duration,
    /// And for each page (4 KB) that it has a part of.
    pub register_page: Duration,
    /// To deregister any memory.
    pub deregister: Duration,
    /// And for each page.
    pub deregister_page: Duration,
    /// And, of either call, for each megabyte (2^20 bytes) that the NIC has registered beside.
    pub beside_mb: Duration,
}

impl Registering {
    /// Nothing.
    pub const FREE: Registering = Registering {
        register: Duration::ZERO,
        register_page: Duration::ZERO,
        deregister: Duration::ZERO,
        deregister_page: Duration::ZERO,
        beside_mb: Duration::ZERO,
    };

    /// cLAN's law, about: 3 to 4 µs at least for both calls together, and more for more data (ICS 2001, section 4.1
    /// and figure 6).
    pub const PUBLISHED: Registering = Registering {
        register: Duration::from_nanos(1_750),
        register_page: Duration::from_nanos(500),
        deregister: Duration::from_nanos(1_000),
        deregister_page: Duration::from_nanos(250),
        beside_mb: Duration::ZERO,
    };

    /// M-VIA's law: both calls together take 4.3 µs for 4 bytes where nothing else is registered, and 10.1 µs where
    /// 2 MB are (ICS 2001, section 4.1). What a page more costs is cLAN's, for want of M-VIA's.
    pub const M_VIA: Registering = Registering {
        register: Duration::from_nanos(2_050),
        deregister: Duration::from_nanos(1_500),
        beside_mb: Duration::from_nanos(1_450),
        ..Registering::PUBLISHED
    };

    /// Whether it costs nothing at all.
    pub fn is_free(&self) -> bool {
        *self == Registering::FREE
    }

    /// To register that memory, with so many bytes registered beside it.
    pub(crate) fn registering(&self, memory: &Memory, beside: u64) -> Duration {
        self.register + self.register_page * pages(memory) + self.beside(beside)
    }

    /// To deregister it.
    pub(crate) fn deregistering(&self, memory: &Memory, beside: u64) -> Duration {
        self.deregister + self.deregister_page * pages(memory) + self.beside(beside)
    }

    fn beside(&self, bytes: u64) -> Duration {
        self.beside_mb.mul_f64(bytes as f64 / f64::from(1 << 20))
    }
}

/// Pages of 4 KB that memory has a part of.
fn pages(memory: &Memory) -> u32 {
    const PAGE: u64 = 4096;
    let (begin, end) = (memory.address(0), memory.address(memory.len()));
    u32::try_from(end.div_ceil(PAGE) - begin / PAGE).unwrap_or(u32::MAX)
}

/// What a network and its NICs are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// What every link does, until it is changed ([`sovia_simnet::Change::Link`]).
    pub link: Link,
    /// Switches that join the NICs; then `link` is of no use. `None`: each two NICs have a link of their own.
    pub fabric: Option<Fabric>,
    /// What makes time pass.
    pub clock: Clock,
    /// Bytes of a message that one packet carries.
    pub mtu: u32,
    /// Packets of one direction of a connection that may be on their way.
    pub window: u32,
    /// What else limits them.
    pub control: Control,
    /// How long an acknowledgement is awaited at least before packets are sent again.
    pub retransmit_first: Duration,
    /// How long at most; each wait without any answer is twice the one before.
    pub retransmit_longest: Duration,
    /// Waits in a row without any answer after which a connection is broken.
    pub retransmit_tries: u32,
    /// What registering memory costs.
    pub registering: Registering,
}

impl Default for Config {
    /// A perfect network with an MTU of 4 KB, stepped by the program; a silent peer is given up
    /// after about a quarter of a second; registering is free.
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
    /// This, over links that behave like that.
    pub fn over(self, link: Link) -> Config {
        Config { link, ..self }
    }

    /// This, through switches.
    pub fn through(self, fabric: Fabric) -> Config {
        Config { fabric: Some(fabric), ..self }
    }

    /// This, with time passing by itself.
    pub fn live(self) -> Config {
        Config { clock: Clock::Live, ..self }
    }

    /// This, with registering at that cost.
    pub fn registering(self, registering: Registering) -> Config {
        Config { registering, ..self }
    }

    /// What the engine is told of it.
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
