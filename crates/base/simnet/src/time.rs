//! Virtual time.

use core::fmt;
use core::time::Duration;

/// A moment of virtual time: nanoseconds since the network began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The beginning.
    pub const ZERO: Time = Time(0);
    /// Later than everything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// The moment that many nanoseconds after the beginning.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the beginning.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The moment a while later; at most [`Time::NEVER`].
    pub fn after(self, while_: Duration) -> Time {
        let nanos = u64::try_from(while_.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` it is; zero if it is before.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// `1.234567890 s`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
