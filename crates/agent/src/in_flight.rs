//! The number of messages that a program has in flight.

/// Messages in flight on the connections that a program has opened: sent, and not answered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    now: u32,
    /// Second in which the program last sent a message.
    second: u64,
    /// Greatest number in this second, and in the second before.
    greatest: [u32; 2],
}

impl InFlight {
    /// Returns the second in which the program last sent a message.
    pub(crate) fn second(&self) -> u64 {
        self.second
    }

    /// Counts messages sent in `second`. Returns the number that the program gets to see.
    pub(crate) fn add(&mut self, messages: u32, second: u64) -> u32 {
        if self.second != second {
            let before = if self.second + 1 == second { self.greatest[0] } else { 0 };
            (self.second, self.greatest) = (second, [0, before]);
        }
        self.now = self.now.saturating_add(messages);
        self.greatest[0] = self.greatest[0].max(self.now);
        self.greatest[0].max(self.greatest[1])
    }

    /// Subtracts answered messages.
    pub(crate) fn subtract(&mut self, messages: u32) {
        self.now = self.now.saturating_sub(messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_the_greatest_number_of_this_second_and_the_one_before() {
        let mut messages = InFlight::default();
        assert_eq!(messages.add(3, 10), 3);
        messages.subtract(2);
        assert_eq!(messages.add(1, 10), 3);
        assert_eq!(messages.add(5, 10), 7);
        messages.subtract(7);
        assert_eq!(messages.add(1, 11), 7);
        assert_eq!(messages.add(1, 12), 2);
        assert_eq!(messages.add(1, 20), 3);
    }

    #[test]
    fn a_number_never_passes_its_ends() {
        let mut messages = InFlight::default();
        messages.subtract(1);
        assert_eq!(messages.add(u32::MAX, 1), u32::MAX);
        assert_eq!(messages.add(1, 1), u32::MAX);
    }
}
