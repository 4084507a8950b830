//! The time that the port passes in.

use core::fmt;
use core::time::Duration;

/// A point in time: nanoseconds since an origin that the port chooses. Time must never go back.
///
/// ```
/// use core::time::Duration;
/// use sovia_link::Time;
///
/// let start = Time::ZERO;
/// let deadline = start.after(Duration::from_millis(5));
/// assert_eq!(deadline.since(start), Duration::from_millis(5));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The port's origin.
    pub const ZERO: Time = Time(0);

    /// Returns the time `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time `while_` later, or the latest representable time.
    pub fn after(self, while_: Duration) -> Time {
        let nanos = u64::try_from(while_.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// Returns the time `nanos` nanoseconds later, or the latest representable time.
    #[must_use]
    pub const fn plus(self, nanos: u64) -> Time {
        Time(self.0.saturating_add(nanos))
    }

    /// Returns the nanoseconds since `earlier`; zero if `earlier` is later.
    pub const fn nanos_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Prints the time as `1.234567890 s`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
