//! The configuration of a station.

use core::time::Duration;
use sovia_link::stream::Timing;
use sovia_port::Place;
use sovia_port::impair::Faults;

/// Selects the thread that does the NIC's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A separate thread does all work, on a fixed processor if one is named.
    Thread {
        /// The only processor for the thread.
        processor: Option<u32>,
    },
    /// Calls of the program do the work, and a thread while no calls come.
    Calls,
}

/// Options for opening a station.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The port of the station.
    pub place: Place,
    /// The key that peers must know to get an answer.
    pub key: u64,
    /// Selects the thread that does the NIC's work.
    pub mode: Mode,
    /// Time that the NIC's thread, or a waiting call, polls before it sleeps.
    pub spin: Duration,
    /// Number of frames per acknowledgement, 1 to 8. The paper uses 3.
    pub collection: u8,
    /// Times to wait for an answer, and number of attempts.
    pub timing: Timing,
    /// Maximum number of bytes of a frame. `None` selects the length that the network certainly carries.
    pub frame_max: Option<usize>,
    /// Set if an unknown station that knows the key becomes a peer when it sends a message.
    pub takes_strangers: bool,
    /// Faults of outgoing frames, for tests.
    pub faults: Option<Faults>,
}

impl Config {
    /// Returns the paper's configuration, except that calls do the NIC's work.
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

/// Reason why a station cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The port cannot be opened.
    #[error("{place}: {why}")]
    Port {
        /// The port's name.
        place: Place,
        /// The port's error.
        why: sovia_port::OpenError,
    },
    /// The port's frames have no room for a message.
    #[error(
        "{0}: the longest frame that this port can send is too short for the protocol; raise the device's MTU"
    )]
    FrameMax(Place),
    /// An agent passes only frames of VIs.
    #[error("{0}: an agent's port does not pass EMP's frames")]
    Agent(Place),
    /// The station cannot get a thread, a descriptor to wake the thread, or a random name.
    #[error("{0}: cannot start the thread of the NIC")]
    Thread(Place),
}
