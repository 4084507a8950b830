//! Measures how long a direction of a VI has carried no bytes, for programs that ask for TCP_INFO.

/// The number of bytes that a direction had carried at the last query, and the time of the last query that found
/// new bytes.
///
/// Sends and receives do not read the clock. Bytes that moved between two queries count as moved at the time of the
/// second query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activity {
    bytes: u64,
    found: u64,
}

impl Activity {
    /// Returns how long the direction has carried no bytes, in nanoseconds; `None` if it has never carried any.
    /// `bytes` is the number of bytes that the direction has carried so far. `now` is the time on the monotonic
    /// clock.
    pub(crate) fn silence(&mut self, bytes: u64, now: u64) -> Option<u64> {
        if bytes != self.bytes {
            *self = Activity { bytes, found: now };
        }
        (bytes != 0).then(|| now.saturating_sub(self.found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_begins_at_the_question_that_found_the_last_bytes() {
        let mut activity = Activity::default();
        assert_eq!(activity.silence(0, 5), None);
        assert_eq!(activity.silence(10, 1000), Some(0));
        assert_eq!(activity.silence(10, 1700), Some(700));
        assert_eq!(activity.silence(11, 5000), Some(0));
        assert_eq!(activity.silence(11, 5001), Some(1));
    }
}
