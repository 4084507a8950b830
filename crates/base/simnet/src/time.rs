//! Virtual time.

use core::fmt;
use core::time::Duration;

/// A moment in virtual time: nanoseconds since the network began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// Beginning of the network.
    pub const ZERO: Time = Time(0);
    /// A time later than all events.
    pub const NEVER: Time = Time(u64::MAX);

    /// Makes a time from nanoseconds since the beginning.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Returns the nanoseconds since the beginning.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time after a duration, at most [`Time::NEVER`].
    pub fn after(self, while_: Duration) -> Time {
        let nanos = u64::try_from(while_.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// Returns the duration since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Formats as `1.234567890 s`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
