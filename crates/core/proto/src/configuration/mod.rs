//! Settings of a stream, from the alternatives that the papers tried (ICS table 4).
//!
//! A [`Configuration`] selects the thread that handles messages, and the way in which outgoing bytes get into
//! memory that a NIC may read. It also sets the number of unacknowledged packets, and the combining of small
//! messages.
//!
//! A configuration has a text form: the name of a preset from the papers, a list of settings, or both:
//! `SOVIA_DACKS`, `w=8,t=4,copy,single`, `combine,delay=5ms`. See [`text`].

pub mod text;

use crate::flow::Parameters;
use core::fmt;
use core::time::Duration;

/// Default length of a chunk in bytes. Longer messages travel in several chunks (ICS section 4.2).
pub const CHUNK: u32 = 32 << 10;
/// Length of the longest chunk in bytes.
pub const CHUNK_MAX: u32 = 64 << 10;
/// Length of the shortest chunk in bytes.
pub const CHUNK_MIN: u32 = 64;
/// The largest window, in packets.
pub const WINDOW_MAX: u16 = 256;
/// The largest window of a socket, in packets.
pub const SOCKET_WINDOW_MAX: u16 = crate::flow::DACKS.window;
/// Number of receives that an end of a socket's VI can keep posted ([`Parameters::receives`]).
pub const SOCKET_RECEIVES: u16 = 48;
/// Default length in bytes up to which HYBRID copies a message (ICS tables 2 and 3).
pub const THRESHOLD: u32 = 2 << 10;
/// The longest time for which combined bytes may wait.
pub const DELAY_MAX: Duration = Duration::from_secs(1);

/// Thread that handles an arriving packet (ICS figure 4). The thread takes the packet's descriptor, posts another
/// descriptor, acknowledges the packet, and wakes the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Handling {
    /// A thread of the NIC, in a callback at each arrival (SOVIA_NOTIFY).
    Notify,
    /// One thread that waits on a completion queue for all streams of a NIC (SOVIA_HANDLER).
    Handler,
    /// The program's thread, in its next call on the stream (SOVIA_SINGLE).
    Single,
}

/// Way in which outgoing bytes get into registered memory (ICS section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transfer {
    /// Registers the program's buffer for the send (SOVIA_REG).
    Reg,
    /// Copies the bytes to a buffer that is already registered (SOVIA_COPY).
    Copy,
    /// Copies short messages, and registers longer ones (SOVIA_HYBRID).
    Hybrid {
        /// Length in bytes of the longest message that is copied.
        threshold: u32,
    },
    /// Lets the provider choose the fastest way.
    Auto,
}

/// Way in which an end knows that the other end has posted a receive for its message (ICS figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handshake {
    /// The sender sends data at once, into receives that the other end has posted in advance. Acknowledgements open
    /// the window again.
    TwoWay,
    /// The sender sends a request for each message, and sends the message after the acknowledgement of the request.
    /// One message travels at a time. The papers rejected this handshake.
    ThreeWay,
    /// Like [`Handshake::ThreeWay`], but the acknowledgement names memory of the receiver. The sender writes the
    /// message to this memory by RDMA. The papers saw no advantage in this handshake (ICS section 6).
    Rdma,
}

impl Handshake {
    /// Returns true if each message needs a permission, which the other end gives when its program reads.
    #[inline]
    pub const fn asks(self) -> bool {
        !matches!(self, Handshake::TwoWay)
    }
}

/// Settings for combining small messages (ICS section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Combine {
    /// Length in bytes below which a message is small.
    pub below: u32,
    /// Longest time for which combined bytes wait for further messages.
    pub delay: Duration,
}

impl Combine {
    /// The papers' settings: messages under 2 KB wait for at most 100 ms.
    pub const PAPERS: Combine = Combine { below: 2 << 10, delay: Duration::from_millis(100) };
}

/// All settings of a stream. Presets and parsed texts are valid. For any other value, call
/// [`Configuration::check`].
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
    /// Way in which outgoing bytes get into registered memory.
    pub transfer: Transfer,
    /// Way in which an end knows that it may send.
    pub handshake: Handshake,
    /// Window `w` and threshold `t`, in packets.
    pub flow: Parameters,
    /// Length in bytes of the longest packet.
    pub chunk: u32,
    /// Settings for combining small messages; With `None` each message is sent alone. A stream can switch combining
    /// on or off later.
    pub combine: Option<Combine>,
}

/// The papers' configurations with their names, in the order of ICS table 4. The papers rejected the last two
/// configurations, which use the three-way handshake and RDMA writes.
///
/// In the papers the first presets have no flow control: each message waits for the acknowledgement of the previous
/// message. Here these presets have `w = 1, t = 1`, which has the same effect (ICS: "SOVIA_BASE can be emulated on
/// SOVIA_DACKS by setting w = 1 and t = 1"). So SOVIA_HYBRID and SOVIA_BASE (a curve in figure 7) are the same
/// configuration.
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

/// Other spellings of preset names in the papers, each with the name in [`PRESETS`].
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

/// Default configuration of sockets. The window and the delayed acknowledgements are the papers' values. The
/// provider chooses the way in which outgoing bytes get into registered memory.
pub const SOCKETS: Configuration = Configuration { transfer: Transfer::Auto, ..DACKS };

impl Default for Configuration {
    /// Returns SOVIA_DACKS, the papers' best configuration for programs that do not ask for combining.
    fn default() -> Configuration {
        DACKS
    }
}

/// Reason why a configuration is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// The window is not between 1 and [`WINDOW_MAX`].
    Window(u16),
    /// The threshold is not between 1 and the window. A larger threshold would never be reached.
    Threshold {
        /// The threshold.
        threshold: u16,
        /// The window.
        window: u16,
    },
    /// The chunk is not between [`CHUNK_MIN`] and [`CHUNK_MAX`].
    Chunk(u32),
    /// The length below which a message is small is 0 or more than a chunk.
    Below(u32),
    /// The longest wait of combined bytes is 0 or more than [`DELAY_MAX`].
    Delay(Duration),
    /// The three-way handshake sends one message at a time, so the window must be 1 and messages cannot be
    /// combined.
    ThreeWay,
    /// RDMA writes send one message at a time, so the window must be 1 and messages cannot be combined.
    Rdma,
}

impl Configuration {
    /// Returns the preset with this name. `name` may omit the prefix `SOVIA_`, and its letters may have any case.
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

    /// Checks that a stream can use this configuration.
    ///
    /// # Errors
    /// The first setting that is not valid.
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

    /// Returns true if a message of `bytes` bytes is copied, false if its memory is registered. With
    /// [`Transfer::Auto`] the message is copied, because every provider can send copies. A caller that knows a
    /// faster way for its provider does not call this function.
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
