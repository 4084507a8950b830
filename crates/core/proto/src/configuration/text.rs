//! Text form of a [`Configuration`]: words with commas between them.
//!
//! Each word changes the configuration that the words to its left describe. The first word changes the preset
//! SOVIA_DACKS. In the text of a socket, the first word changes [`SOCKETS`].
//!
//! | word | effect |
//! |---|---|
//! | `SOVIA_DACKS`, `dacks`, … | selects the papers' configuration with this name |
//! | `notify`, `handler`, `single` | selects the thread that handles messages |
//! | `reg`, `copy`, `hybrid`, `hybrid=2048` | registers or copies messages; `hybrid=N` copies messages of up to N
//! bytes |
//! | `auto` | lets the provider choose the fastest way to send |
//! | `w=32`, `t=16` | sets window and threshold, in packets |
//! | `chunk=32768` | sets the length of the longest packet, in bytes |
//! | `combine`, `combine=2048`, `nocombine` | combines messages shorter than this many bytes, or none |
//! | `delay=100ms`, `delay=50us` | sets the time for which combined bytes wait (after `combine`) |
//! | `2way`, `3way`, `rdma` | selects the handshake; the last two also set `w=1,t=1` |
//!
//! Some words are also short names of presets: `single`, `copy`, `reg`, `hybrid`, `notify`, `handler`, `combine`,
//! `3way`, `rdma`. In the text form such a word changes one setting. Only the full name, such as `SOVIA_SINGLE`,
//! selects the preset.

use super::{
    Combine, Configuration, Handling, Handshake, Invalid, PRESETS, SOCKET_RECEIVES,
    SOCKET_WINDOW_MAX, SOCKETS, THRESHOLD, Transfer,
};
use crate::flow::Parameters;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// Reason why a text is not a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseError {
    /// The text has a word that is neither a setting nor a preset.
    Word(String),
    /// A word has a value that it does not accept, or lacks a value that it needs.
    Value {
        /// The word before the `=`.
        word: String,
        /// The text after the `=`; empty if there is none.
        value: String,
    },
    /// Each word is valid, but the resulting configuration is not.
    Invalid(Invalid),
    /// The text of a socket selects the three-way handshake, with RDMA or without. Sockets cannot use this
    /// handshake.
    ThreeWaySocket,
    /// The text of a socket sets a window that does not fit into a socket's ring.
    SocketWindow(Parameters),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::Word(word) => write!(f, "no such configuration or setting: `{word}`"),
            ParseError::Value { word, value } => match (example(word), value.is_empty()) {
                (Some(example), true) => write!(f, "`{word}` needs a value, as in `{example}`"),
                (Some(example), false) => {
                    write!(f, "`{word}` cannot be `{value}`; write for example `{example}`")
                }
                (None, _) => write!(f, "`{word}` takes no value; write `{word}` alone"),
            },
            ParseError::Invalid(invalid) => invalid.fmt(f),
            ParseError::ThreeWaySocket => write!(
                f,
                "sockets cannot use the three-way handshake, with or without RDMA: two programs that both write before \
                 they read would wait for each other forever"
            ),
            ParseError::SocketWindow(Parameters { window, threshold }) => {
                let most = socket_window_max(*threshold);
                write!(f, "w is {window}, and must be 1 to {most} packets for sockets")?;
                if most < SOCKET_WINDOW_MAX { write!(f, " if t is {threshold}") } else { Ok(()) }
            }
        }
    }
}

impl core::error::Error for ParseError {}

impl From<Invalid> for ParseError {
    fn from(invalid: Invalid) -> ParseError {
        ParseError::Invalid(invalid)
    }
}

impl FromStr for Configuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Configuration, ParseError> {
        changed(Configuration::default(), text)
    }
}

fn changed(mut configuration: Configuration, text: &str) -> Result<Configuration, ParseError> {
    for word in text.split(',').map(str::trim) {
        apply(&mut configuration, word, Configuration::named)?;
    }
    configuration.check()?;
    Ok(configuration)
}

/// Returns an example of a word with a value that it accepts; `None` if the word takes no value.
fn example(word: &str) -> Option<&'static str> {
    Some(match word {
        "w" => "w=16",
        "t" => "t=8",
        "chunk" => "chunk=16384",
        "hybrid" => "hybrid=2048",
        "combine" => "combine=1024",
        "delay" => "combine,delay=1ms",
        _ => return None,
    })
}

/// Returns the largest window of a socket with this threshold. Its packets and acknowledgements fit into the ring.
fn socket_window_max(threshold: u16) -> u16 {
    let fits = |&window: &u16| Parameters { window, threshold }.receives() <= SOCKET_RECEIVES;
    (1..=SOCKET_WINDOW_MAX).rev().find(fits).unwrap_or(1)
}

/// Returns the preset with this name. Its window is reduced to what a socket can use.
fn named_of_socket(name: &str) -> Option<Configuration> {
    let mut preset = Configuration::named(name)?;
    preset.flow.window = preset.flow.window.min(socket_window_max(preset.flow.threshold));
    Some(preset)
}

/// Words of the text form, except the names of presets.
const WORDS: &[&str] = &[
    "notify",
    "handler",
    "single",
    "reg",
    "copy",
    "auto",
    "hybrid",
    "w",
    "t",
    "chunk",
    "combine",
    "nocombine",
    "delay",
    "2way",
    "3way",
    "rdma",
];

impl Configuration {
    /// Returns all words of the text form, including the names of presets.
    pub fn words() -> impl Iterator<Item = &'static str> {
        WORDS.iter().copied().chain(PRESETS.iter().map(|(name, _)| *name))
    }

    /// Parses the text of a socket's settings, as changes to [`SOCKETS`]. Refuses the three-way handshake, and a window
    /// that does not fit into a socket's ring. A preset's window is reduced instead.
    ///
    /// Programs rely on sockets that accept bytes before the peer reads. In the three-way handshake a message needs
    /// a permission, which the peer gives only when it reads.
    ///
    /// # Errors
    /// [`ParseError`].
    pub fn of_socket(text: &str) -> Result<Configuration, ParseError> {
        let mut configuration = SOCKETS;
        for word in text.split(',').map(str::trim) {
            apply(&mut configuration, word, named_of_socket)?;
        }
        let flow = configuration.flow;
        if !(1..=SOCKET_WINDOW_MAX).contains(&flow.window) {
            // The threshold may be wrong too, so the error names the limit of all thresholds.
            let threshold = SOCKET_WINDOW_MAX;
            return Err(ParseError::SocketWindow(Parameters { threshold, ..flow }));
        }
        configuration.check()?;
        if flow.window > socket_window_max(flow.threshold) {
            return Err(ParseError::SocketWindow(flow));
        }
        match configuration.handshake {
            Handshake::TwoWay => Ok(configuration),
            Handshake::ThreeWay | Handshake::Rdma => Err(ParseError::ThreeWaySocket),
        }
    }
}

fn apply(
    c: &mut Configuration,
    text: &str,
    named: fn(&str) -> Option<Configuration>,
) -> Result<(), ParseError> {
    let (word, value) = match text.split_once('=') {
        Some((word, value)) => (word.trim(), Some(value.trim())),
        None => (text, None),
    };
    let bad = || ParseError::Value { word: word.into(), value: value.unwrap_or("").into() };
    let flag = || if value.is_none() { Ok(()) } else { Err(bad()) };
    let number = || value.and_then(|value| value.parse::<u32>().ok()).ok_or_else(bad);
    let packets = || u16::try_from(number()?).map_err(|_| bad());
    let or = |usual| if value.is_none() { Ok(usual) } else { number() };
    match word {
        "notify" => flag().map(|()| c.handling = Handling::Notify),
        "handler" => flag().map(|()| c.handling = Handling::Handler),
        "single" => flag().map(|()| c.handling = Handling::Single),
        "reg" => flag().map(|()| c.transfer = Transfer::Reg),
        "copy" => flag().map(|()| c.transfer = Transfer::Copy),
        "auto" => flag().map(|()| c.transfer = Transfer::Auto),
        "hybrid" => or(THRESHOLD).map(|threshold| c.transfer = Transfer::Hybrid { threshold }),
        "w" => packets().map(|window| c.flow.window = window),
        "t" => packets().map(|threshold| c.flow.threshold = threshold),
        "chunk" => number().map(|chunk| c.chunk = chunk),
        "combine" => or(Combine::PAPERS.below).map(|below| {
            let delay = c.combine.unwrap_or(Combine::PAPERS).delay;
            c.combine = Some(Combine { below, delay });
        }),
        "nocombine" => flag().map(|()| c.combine = None),
        "delay" => {
            let delay = value.and_then(duration).ok_or_else(bad)?;
            let combine = c.combine.as_mut().ok_or_else(bad)?;
            combine.delay = delay;
            Ok(())
        }
        "2way" => flag().map(|()| c.handshake = Handshake::TwoWay),
        "3way" => flag().map(|()| ask(c, Handshake::ThreeWay)),
        "rdma" => flag().map(|()| ask(c, Handshake::Rdma)),
        _ => {
            let preset = named(word).ok_or_else(|| ParseError::Word(word.into()))?;
            flag().map(|()| *c = preset)
        }
    }
}

/// Selects a handshake with one request for each message. Sets the window to 1, because only one message may be on
/// its way.
fn ask(c: &mut Configuration, handshake: Handshake) {
    c.handshake = handshake;
    c.flow = Parameters { window: 1, threshold: 1 };
}

fn duration(text: &str) -> Option<Duration> {
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(text) = text.strip_suffix("us") {
        number(text).map(Duration::from_micros)
    } else if let Some(text) = text.strip_suffix("ms") {
        number(text).map(Duration::from_millis)
    } else {
        number(text.strip_suffix('s')?).and_then(|s| (s < 1 << 32).then(|| Duration::from_secs(s)))
    }
}

/// Prints a preset as its name, and any other configuration as a list of all its settings. [`FromStr`] can parse
/// the printed text.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = PRESETS.iter().find(|(_, preset)| preset == self) {
            return f.pad(name);
        }
        match self.handshake {
            Handshake::TwoWay => {}
            Handshake::ThreeWay => write!(f, "3way,")?,
            Handshake::Rdma => write!(f, "rdma,")?,
        }
        let Parameters { window, threshold } = self.flow;
        write!(f, "w={window},t={threshold},")?;
        match self.transfer {
            Transfer::Reg => write!(f, "reg")?,
            Transfer::Copy => write!(f, "copy")?,
            Transfer::Auto => write!(f, "auto")?,
            Transfer::Hybrid { threshold } => write!(f, "hybrid={threshold}")?,
        }
        let handling = match self.handling {
            Handling::Notify => "notify",
            Handling::Handler => "handler",
            Handling::Single => "single",
        };
        write!(f, ",{handling},chunk={}", self.chunk)?;
        if let Some(Combine { below, delay }) = self.combine {
            write!(f, ",combine={below},delay={}us", delay.as_micros())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::ToString;

    fn parse(text: &str) -> Result<Configuration, ParseError> {
        text.parse()
    }

    #[test]
    fn each_word_has_a_meaning() {
        for word in Configuration::words() {
            let message_of = word.parse::<Configuration>();
            assert!(!matches!(message_of, Err(ParseError::Word(_))), "{word}: {message_of:?}");
        }
    }

    #[test]
    fn preset_name_followed_by_changes_parses() {
        let c = parse("SOVIA_COMB").unwrap();
        assert_eq!((c.to_string().as_str(), c.combine), ("SOVIA_COMBINE", Some(Combine::PAPERS)));
        let c = parse("w=8, t=4, copy, handler").unwrap();
        assert_eq!((c.flow.window, c.flow.threshold), (8, 4));
        assert_eq!((c.transfer, c.handling), (Transfer::Copy, Handling::Handler));
        let c = parse("SOVIA_DACKS,combine=512,delay=50us,chunk=4096").unwrap();
        assert_eq!(c.combine, Some(Combine { below: 512, delay: Duration::from_micros(50) }));
        assert_eq!(parse("3way,reg").unwrap().flow.window, 1);
        assert_eq!(parse("SOVIA_BASE,w=32").unwrap().flow.threshold, 1);
    }

    #[test]
    fn a_sockets_text_changes_what_sockets_do() {
        let of = |text| Configuration::of_socket(text);
        assert_eq!(of("w=8,t=4").unwrap().transfer, Transfer::Auto);
        assert_eq!(of("auto"), Ok(SOCKETS));
        assert_eq!(of("SOVIA_DACKS"), Ok(Configuration::default()));
        assert_eq!(of("handler,reg").unwrap().handling, Handling::Handler);
        assert_eq!(of("SOVIA_3WAY"), Err(ParseError::ThreeWaySocket));
        assert_eq!(of("SOVIA_RDMA"), Err(ParseError::ThreeWaySocket));
        assert_eq!(of("rdma"), Err(ParseError::ThreeWaySocket));
        assert!(of("3way").unwrap_err().to_string().contains("wait for each other"));
    }

    #[test]
    fn window_that_exceeds_a_sockets_ring_is_refused() {
        let message_of = |text| Configuration::of_socket(text).unwrap_err().to_string();
        assert_eq!(message_of("w=99"), "w is 99, and must be 1 to 32 packets for sockets");
        assert_eq!(message_of("w=33,t=40"), "w is 33, and must be 1 to 32 packets for sockets");
        assert_eq!(message_of("w=0"), "w is 0, and must be 1 to 32 packets for sockets");
        assert_eq!(
            message_of("w=23,t=1"),
            "w is 23, and must be 1 to 22 packets for sockets if t is 1"
        );
        assert_eq!(
            message_of("w=31,t=2"),
            "w is 31, and must be 1 to 30 packets for sockets if t is 2"
        );
        assert_eq!(message_of("SOVIA_FLOWCNTL,w=32"), message_of("w=32,t=1"));
        let window_of = |text| Configuration::of_socket(text).unwrap().flow.window;
        assert_eq!(window_of("w=32,t=3"), 32);
        assert_eq!(window_of("w=22,t=1"), 22);
        assert_eq!(window_of("SOVIA_FLOWCNTL"), 22);
        assert_eq!(window_of("SOVIA_DACKS"), 32);
        assert_eq!(parse("w=256").unwrap().flow.window, 256, "a stream that is no socket");
    }

    #[test]
    fn what_is_printed_is_read_again() {
        let texts = [
            "w=8,t=4,copy,notify",
            "3way,reg,handler",
            "rdma,reg",
            "hybrid=100,combine=64,delay=1s",
            "auto",
        ];
        for text in PRESETS.iter().map(|(name, _)| *name).chain(texts) {
            let c = parse(text).unwrap();
            assert_eq!(parse(&c.to_string()), Ok(c), "{text} is printed as {c}");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let message_of = |text| parse(text).unwrap_err().to_string();
        assert_eq!(message_of("SOVIA_WARP"), "no such configuration or setting: `SOVIA_WARP`");
        assert_eq!(message_of("w"), "`w` needs a value, as in `w=16`");
        assert_eq!(message_of("w=many"), "`w` cannot be `many`; write for example `w=16`");
        assert_eq!(message_of("w=70000"), "`w` cannot be `70000`; write for example `w=16`");
        assert_eq!(message_of("w=0"), "w is 0, and must be 1 to 256 packets");
        assert_eq!(message_of("w=4,t=8"), "t is 8, and must be 1 to w (4 packets)");
        assert_eq!(message_of("copy=3"), "`copy` takes no value; write `copy` alone");
        let delay =
            |value| format!("`delay` cannot be `{value}`; write for example `combine,delay=1ms`");
        assert_eq!(message_of("delay=1ms"), delay("1ms"), "without `combine` before it");
        assert_eq!(message_of("warp=3"), "no such configuration or setting: `warp`");
        assert_eq!(message_of("dacks="), "`dacks` takes no value; write `dacks` alone");
        assert_eq!(message_of("combine,delay=soon"), delay("soon"));
        assert!(message_of("combine,delay=0ms").starts_with("the delay is 0ns"));
        assert!(message_of("combine=0").contains("0 bytes"));
        assert!(message_of("chunk=10").starts_with("the chunk is 10"));
        assert_eq!(
            message_of("3way,w=2"),
            "the three-way handshake needs w=1 and cannot combine messages"
        );
        assert_eq!(
            message_of("SOVIA_RDMA,combine"),
            "RDMA writes need w=1 and cannot combine messages"
        );
        assert_eq!(message_of(""), "no such configuration or setting: ``");
    }
}
