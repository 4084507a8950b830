//! Bundles of messages to the remote NIC: one message of the channel carries several of them.

use crate::wire::Message;
use sovia_link::Channel;
use sovia_reflect::Malformed;

/// Number of bytes from which a bundle takes no further message.
const FULL: usize = 16 << 10;

/// Messages that the channel does not have yet.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    bytes: Vec<u8>,
}

impl Bundle {
    /// Returns true if there is room for a message. Sends a full bundle first.
    pub(crate) fn has_room(&mut self, channel: &mut Channel) -> bool {
        self.bytes.len() < FULL || self.send(channel)
    }

    /// Appends a message. Call [`Bundle::has_room`] first.
    pub(crate) fn put(&mut self, message: &Message<'_>) {
        self.put_by(|bytes| message.encode(bytes));
    }

    /// Appends the message that `encode` writes. Call [`Bundle::has_room`] first.
    pub(crate) fn put_by(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        encode(&mut self.bytes);
        let len = (self.bytes.len() - at - 4) as u32;
        self.bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Returns true if no message waits for the channel.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number of bytes that wait for the channel.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Passes the bundle to the channel. Returns false if the channel has no room.
    pub(crate) fn send(&mut self, channel: &mut Channel) -> bool {
        if !self.is_empty() {
            return channel.send_from(&mut self.bytes).is_ok();
        }
        true
    }
}

/// Iterator over the messages of a received bundle.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let cut = |bytes: &'a [u8]| {
            let (len, rest) = bytes.split_first_chunk()?;
            rest.split_at_checked(u32::from_le_bytes(*len) as usize)
        };
        let Some((message, rest)) = cut(self.0) else {
            self.0 = &[];
            return Some(Err(Malformed("a truncated bundle")));
        };
        self.0 = rest;
        Some(Message::decode(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sovia_link::{Config, Time};

    fn exchange(from: &mut Channel, to: &mut Channel) {
        let mut frame = Vec::new();
        while from.poll_transmit(Time::ZERO, &mut frame) {
            to.handle_frame(Time::ZERO, &frame).unwrap();
        }
    }

    #[test]
    fn messages_arrive_in_order_however_they_are_bundled() {
        let (config, mut bundle) = (Config::default(), Bundle::default());
        let [mut from, mut to] = [1, 2].map(|seed| Channel::new(config, 0, seed));
        let about = [7; 5000];
        let (mut got, mut bytes, mut channel_messages) = (Vec::new(), Vec::new(), 0);
        for n in 0..100 {
            while !bundle.has_room(&mut from) {
                exchange(&mut from, &mut to);
                exchange(&mut to, &mut from);
            }
            bundle.put(&Message::About(n, &about[..n as usize * 50]));
        }
        while !bundle.send(&mut from) || !from.is_idle() {
            exchange(&mut from, &mut to);
            exchange(&mut to, &mut from);
            while to.poll_message(&mut bytes) {
                channel_messages += 1;
                for message in Messages(&bytes) {
                    let Ok(Message::About(n, bytes)) = message else { panic!("{message:?}") };
                    got.push((n, bytes.len()));
                }
            }
        }
        assert_eq!(got, (0..100).map(|n| (n, n as usize * 50)).collect::<Vec<_>>());
        assert!(channel_messages < 50, "{channel_messages}");
    }

    #[test]
    fn a_bundle_cut_short_ends_with_an_error() {
        let mut bundle = Bundle::default();
        bundle.put(&Message::Withdraw(3));
        bundle.put(&Message::Withdraw(4));
        let told: Vec<_> = Messages(&bundle.bytes[..bundle.bytes.len() - 1]).collect();
        assert_eq!(told, [Ok(Message::Withdraw(3)), Err(Malformed("a truncated bundle"))]);
    }
}
