//! What a stream does of all that the papers tried (ICS table 4): which thread handles messages, how
//! outgoing bytes become memory that a NIC may read, how many packets may be on their way, and
//! whether small messages are combined.
//!
//! A [`Configuration`] has a text form, read and printed: a name of the papers', changes to it, or
//! both: `SOVIA_DACKS`, `w=8,t=4,copy,single`, `combine,delay=5ms`. See [`text`].

pub mod text;

use crate::flow::Parameters;
use core::fmt;
use core::time::Duration;

/// Bytes of a chunk, unless said otherwise: longer messages go in several (ICS section 4.2).
pub const CHUNK: u32 = 32 << 10;
/// Bytes of the longest chunk.
pub const CHUNK_MAX: u32 = 64 << 10;
/// Bytes of the shortest chunk.
pub const CHUNK_MIN: u32 = 64;
/// The largest window.
pub const WINDOW_MAX: u16 = 256;
/// Bytes up to which HYBRID copies, unless said otherwise (ICS tables 2 and 3).
pub const THRESHOLD: u32 = 2 << 10;
/// The longest that combined bytes may wait.
pub const DELAY_MAX: Duration = Duration::from_secs(1);

/// The thread that handles an arriving packet: it takes its descriptor, posts another, acknowledges, wakes
/// the program (ICS figure 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Handling {
    /// A callback of the NIC's at each arrival, in the NIC's thread (SOVIA_NOTIFY).
    Notify,
    /// One thread that waits on a completion queue for all streams of a NIC (SOVIA_HANDLER).
    Handler,
    /// The program's thread, whenever it calls (SOVIA_SINGLE).
    Single,
}

/// How outgoing bytes become registered memory (ICS section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transfer {
    /// The program's buffer is registered for the send (SOVIA_REG).
    Reg,
    /// The bytes are copied to a buffer that is registered already (SOVIA_COPY).
    Copy,
    /// Copied up to so many bytes, registered beyond (SOVIA_HYBRID).
    Hybrid {
        /// Bytes of the longest message that is copied.
        threshold: u32,
    },
    /// Whatever the provider does soonest.
    Auto,
}

/// How an end knows that the other has a receive posted for its message (ICS figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handshake {
    /// Data goes at once, into receives posted before; acknowledgements open the window.
    TwoWay,
    /// A request for each message, data when it has been acknowledged: the papers' rejected
    /// alternative. One message at a time.
    ThreeWay,
    /// The same, and the acknowledgement names memory of the reader's: the sender writes the data there by
    /// RDMA, with which the papers saw no advantage (ICS section 6).
    Rdma,
}

impl Handshake {
    /// Whether a message needs leave, which the other program gives by reading.
    #[inline]
    pub const fn asks(self) -> bool {
        !matches!(self, Handshake::TwoWay)
    }
}

/// How small messages are combined (ICS section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Combine {
    /// Bytes below which a message is small.
    pub below: u32,
    /// How long combined bytes wait for more at most.
    pub delay: Duration,
}

impl Combine {
    /// The papers': messages under 2 KB, for 100 ms.
    pub const PAPERS: Combine = Combine { below: 2 << 10, delay: Duration::from_millis(100) };
}

/// Everything that may be chosen about a stream. Build one from a preset or from text; those are
/// valid, and [`Configuration::check`] says whether any other is.
///
/// ```
/// use sovia_proto::configuration::{Configuration, Transfer};
///
/// let configuration: Configuration = "SOVIA_COMBINE,copy,w=8,t=4".parse()?;
/// assert_eq!((configuration.transfer, configuration.flow.window), (Transfer::Copy, 8));
/// let error = "w=8,t=9".parse::<Configuration>().unwrap_err();
/// println!("{error}");
/// # Ok::<(), sovia_proto::configuration::text::ParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// The thread that handles arriving packets.
    pub handling: Handling,
    /// How outgoing bytes become registered memory.
    pub transfer: Transfer,
    /// How an end knows that it may send.
    pub handshake: Handshake,
    /// Window `w` and threshold `t`, in packets.
    pub flow: Parameters,
    /// Bytes that one packet carries at most.
    pub chunk: u32,
    /// Whether and how small messages are combined; switched for each stream by itself later.
    pub combine: Option<Combine>,
}

/// The papers' names, in the order of ICS table 4, then what they rejected: the three-way handshake, and RDMA writes after it. The first
/// ones have no flow control there: a message waits for the acknowledgement of the one before,
/// which is `w = 1, t = 1` (ICS: "SOVIA_BASE can be emulated on SOVIA_DACKS by setting w = 1 and
/// t = 1"). So SOVIA_HYBRID and SOVIA_BASE, the curve of figure 7, are one configuration.
pub const PRESETS: &[(&str, Configuration)] = &[
    ("SOVIA_NOTIFY", Configuration { handling: Handling::Notify, ..SINGLE }),
    ("SOVIA_HANDLER", Configuration { handling: Handling::Handler, ..SINGLE }),
    ("SOVIA_SINGLE", SINGLE),
    ("SOVIA_REG", SINGLE),
    ("SOVIA_COPY", Configuration { transfer: Transfer::Copy, ..SINGLE }),
    ("SOVIA_HYBRID", BASE),
    ("SOVIA_BASE", BASE),
    ("SOVIA_FLOWCNTL", Configuration { flow: Parameters { window: 32, threshold: 1 }, ..BASE }),
    ("SOVIA_DACKS", DACKS),
    ("SOVIA_COMBINE", Configuration { combine: Some(Combine::PAPERS), ..DACKS }),
    ("SOVIA_3WAY", Configuration { handshake: Handshake::ThreeWay, ..BASE }),
    ("SOVIA_RDMA", Configuration { handshake: Handshake::Rdma, ..BASE }),
];

/// Other spellings that the papers' text and figures use.
pub(crate) const ALIASES: &[(&str, &str)] =
    &[("SOVIA_COMB", "SOVIA_COMBINE"), ("SOVIA_FLOWCTRL", "SOVIA_FLOWCNTL")];

const SINGLE: Configuration = Configuration {
    handling: Handling::Single,
    transfer: Transfer::Reg,
    handshake: Handshake::TwoWay,
    flow: Parameters { window: 1, threshold: 1 },
    chunk: CHUNK,
    combine: None,
};
const BASE: Configuration =
    Configuration { transfer: Transfer::Hybrid { threshold: THRESHOLD }, ..SINGLE };
const DACKS: Configuration = Configuration { flow: crate::flow::DACKS, ..BASE };

/// What sockets do unless told otherwise: the papers' window and delayed acknowledgements, and for
/// the bytes what suits the provider.
pub const SOCKETS: Configuration = Configuration { transfer: Transfer::Auto, ..DACKS };

impl Default for Configuration {
    /// SOVIA_DACKS: the papers' best for programs that do not ask for combining.
    fn default() -> Configuration {
        DACKS
    }
}

/// Why a configuration cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// The window is not between 1 and [`WINDOW_MAX`].
    Window(u16),
    /// The threshold is not between 1 and the window: acknowledgements would never go.
    Threshold {
        /// What was asked for.
        threshold: u16,
        /// The window.
        window: u16,
    },
    /// The chunk is not between [`CHUNK_MIN`] and [`CHUNK_MAX`].
    Chunk(u32),
    /// The limit of small messages is 0 or more than a chunk.
    Below(u32),
    /// The delay is 0 or more than [`DELAY_MAX`].
    Delay(Duration),
    /// The three-way handshake has one message on its way, and none to combine.
    ThreeWay,
    /// So have RDMA writes, which go to the memory of one read.
    Rdma,
}

impl Configuration {
    /// The configuration that the papers call so, `SOVIA_` or not, in capitals or not.
    pub fn named(name: &str) -> Option<Configuration> {
        const PREFIX: usize = "SOVIA_".len();
        let same = |full: &str| {
            full.eq_ignore_ascii_case(name) || full[PREFIX..].eq_ignore_ascii_case(name)
        };
        let name = ALIASES.iter().find(|(alias, _)| same(alias));
        let preset = match name {
            Some((_, full)) => PRESETS.iter().find(|(name, _)| name == full),
            None => PRESETS.iter().find(|(name, _)| same(name)),
        };
        preset.map(|&(_, configuration)| configuration)
    }

    /// Whether a stream can be like that.
    ///
    /// # Errors
    /// [`Invalid`] names the first thing that is wrong.
    pub fn check(&self) -> Result<(), Invalid> {
        let Parameters { window, threshold } = self.flow;
        if !(1..=WINDOW_MAX).contains(&window) {
            return Err(Invalid::Window(window));
        }
        if !(1..=window).contains(&threshold) {
            return Err(Invalid::Threshold { threshold, window });
        }
        if !(CHUNK_MIN..=CHUNK_MAX).contains(&self.chunk) {
            return Err(Invalid::Chunk(self.chunk));
        }
        if let Some(Combine { below, delay }) = self.combine {
            if !(1..=self.chunk).contains(&below) {
                return Err(Invalid::Below(below));
            }
            if delay.is_zero() || delay > DELAY_MAX {
                return Err(Invalid::Delay(delay));
            }
        }
        match self.handshake {
            Handshake::ThreeWay if window > 1 || self.combine.is_some() => Err(Invalid::ThreeWay),
            Handshake::Rdma if window > 1 || self.combine.is_some() => Err(Invalid::Rdma),
            _ => Ok(()),
        }
    }

    /// Whether a message of so many bytes is copied rather than registered. AUTO copies, which every
    /// provider can do; a caller that knows a better way for its provider says so instead.
    #[inline]
    pub fn copies(&self, bytes: u32) -> bool {
        match self.transfer {
            Transfer::Reg => false,
            Transfer::Copy | Transfer::Auto => true,
            Transfer::Hybrid { threshold } => bytes <= threshold,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Invalid::Window(w) => write!(f, "w is {w}, and must be 1 to {WINDOW_MAX} packets"),
            Invalid::Threshold { threshold, window } => {
                write!(f, "t is {threshold}, and must be 1 to w ({window} packets)")
            }
            Invalid::Chunk(chunk) => {
                write!(f, "the chunk is {chunk}, and must be {CHUNK_MIN} to {CHUNK_MAX} bytes")
            }
            Invalid::Below(below) => {
                write!(
                    f,
                    "combine is {below} bytes, and must be from 1 byte to the size of a chunk"
                )
            }
            Invalid::Delay(delay) => {
                write!(f, "the delay is {delay:?}, and must be more than 0 and at most 1 s")
            }
            Invalid::ThreeWay => {
                write!(f, "the three-way handshake needs w=1 and cannot combine messages")
            }
            Invalid::Rdma => write!(f, "RDMA writes need w=1 and cannot combine messages"),
        }
    }
}

impl core::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid_and_found_by_its_names() {
        for (name, configuration) in PRESETS {
            assert_eq!(configuration.check(), Ok(()), "{name}");
            assert_eq!(Configuration::named(name), Some(*configuration));
            assert_eq!(Configuration::named(&name[6..].to_lowercase()), Some(*configuration));
        }
        assert_eq!(Configuration::named("comb"), Configuration::named("SOVIA_COMBINE"));
        assert_eq!(Configuration::named("tcp"), None);
        assert_eq!(Configuration::named(""), None);
    }

    #[test]
    fn the_presets_are_those_of_table_4() {
        let row = |name| {
            let c = Configuration::named(name).unwrap();
            (c.handling, c.transfer, c.flow.window, c.flow.threshold, c.combine.is_some())
        };
        let hybrid = Transfer::Hybrid { threshold: 2048 };
        assert_eq!(row("SOVIA_NOTIFY"), (Handling::Notify, Transfer::Reg, 1, 1, false));
        assert_eq!(row("SOVIA_HANDLER"), (Handling::Handler, Transfer::Reg, 1, 1, false));
        assert_eq!(row("SOVIA_SINGLE"), (Handling::Single, Transfer::Reg, 1, 1, false));
        assert_eq!(row("SOVIA_COPY"), (Handling::Single, Transfer::Copy, 1, 1, false));
        assert_eq!(row("SOVIA_HYBRID"), (Handling::Single, hybrid, 1, 1, false));
        assert_eq!(row("SOVIA_FLOWCNTL"), (Handling::Single, hybrid, 32, 1, false));
        assert_eq!(row("SOVIA_DACKS"), (Handling::Single, hybrid, 32, 16, false));
        assert_eq!(row("SOVIA_COMBINE"), (Handling::Single, hybrid, 32, 16, true));
    }
}
