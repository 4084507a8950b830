//! What a station is like.

use core::time::Duration;
use sovia_link::stream::Timing;
use sovia_port::Place;
use sovia_port::impair::Faults;

/// Which thread does the NIC's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A thread of its own, all of it, on that processor alone if one is named.
    Thread {
        /// The processor.
        processor: Option<u32>,
    },
    /// The program's calls, and a thread while there are none.
    Calls,
}

/// A station that is to be opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where it is.
    pub place: Place,
    /// What peers have to know in order to be answered.
    pub key: u64,
    /// Which thread does the NIC's work.
    pub mode: Mode,
    /// How long the NIC's thread, or a call that waits, looks before it sleeps.
    pub spin: Duration,
    /// Frames that are acknowledged together, 1 to 8. The paper has 3.
    pub collection: u8,
    /// How long an answer is awaited, and how often.
    pub timing: Timing,
    /// Bytes of a frame; `None`: what the place takes for sure.
    pub frame_max: Option<usize>,
    /// Whether a station that knows the key becomes a peer by sending something.
    pub takes_strangers: bool,
    /// What goes wrong with the frames that it sends, for tests.
    pub faults: Option<Faults>,
}

impl Config {
    /// A station in that place, as the paper has it but for its processor.
    pub fn new(place: Place, key: u64) -> Config {
        let engine = sovia_emp::Config::new(sovia_link::wire::EndId::NONE, key);
        Config {
            place,
            key,
            mode: Mode::Calls,
            spin: Duration::from_micros(50),
            collection: engine.collection,
            timing: engine.timing,
            frame_max: None,
            takes_strangers: false,
            faults: None,
        }
    }
}

/// Why a station cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Its port cannot be.
    #[error("{place}: {why}")]
    Port {
        /// Where it was to be.
        place: Place,
        /// What the port says.
        why: sovia_port::OpenError,
    },
    /// Its frames would have no room for a message.
    #[error(
        "{0}: the longest frame that this port can send is too short for the protocol; raise the device's MTU"
    )]
    FrameMax(Place),
    /// An agent passes frames of VIs alone.
    #[error("{0}: an agent's port does not pass EMP's frames")]
    Agent(Place),
    /// It can have no thread, no descriptor to wake that by, or no random name.
    #[error("{0}: cannot start the thread of the NIC")]
    Thread(Place),
}
