//! Measures the silence of a direction of a VI, for programs that ask for TCP_INFO.

/// The last query about a direction that found more bytes than the query before.
///
/// No clock is read when bytes move. Bytes that moved between two queries count as moved at the second query. So a busy
/// direction never counts as silent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Activity {
    bytes: u64,
    found: u64,
}

impl Activity {
    /// Returns how long the direction, which has carried `bytes`, has been silent; `None` if it has carried none. Times
    /// are nanoseconds of the monotonic clock.
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
