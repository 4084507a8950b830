//! Secure conversation of two agents over a byte stream: both are authenticated, and no other process can read or
//! change their messages.
//!
//! Uses Noise's pattern IK (Noise Protocol Framework, revision 34, section 7.5). Each message follows its length
//! (u16, big-endian). This is a state machine without I/O: bytes go in, bytes and messages come out.

use super::key::{PublicKey, SecretKey};
use snow::{Builder, HandshakeState, TransportState};
use std::sync::Arc;

/// Agents with different prologues cannot complete the handshake. A new version changes the prologue.
const PROLOGUE: &[u8] = b"sovia agent 1";
const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// Length of the longest sealed message, the bytes that sealing adds, and the length of the longest handshake
/// message.
const MESSAGE_MAX: usize = 65535;
const SEAL: usize = 16;
const GREETING_MAX: usize = 512;

/// Reason why a conversation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ended {
    /// The received bytes do not belong to this conversation, or do not come from an agent.
    #[error("no Sovia agent answers there, or its key differs from the expected one")]
    Nonsense,
    /// The other end is an agent with an unexpected key.
    #[error("the agent there has the key {0}, which no --peer of this agent has")]
    Unexpected(PublicKey),
}

enum State {
    Greeting(Box<HandshakeState>),
    Open(Box<TransportState>),
    /// The conversation has failed. Nothing can be sent or received.
    Over,
}

/// One side of a conversation.
pub(super) struct Secure {
    state: State,
    /// Keys that the other side may have.
    known: Arc<[PublicKey]>,
    /// Key that the other side has proved.
    peer: Option<PublicKey>,
    inbound: Vec<u8>,
    outbound: Vec<u8>,
}

impl core::fmt::Debug for Secure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Secure(open: {})", self.is_open())
    }
}

impl Secure {
    /// Makes the side that sends first, to an agent with the key `peer`.
    pub(super) fn first(own: &SecretKey, peer: PublicKey) -> Result<Secure, snow::Error> {
        let mut state = builder(own)?.remote_public_key(peer.bytes())?.build_initiator()?;
        let mut message = [0; GREETING_MAX];
        let len = state.write_message(&[], &mut message)?;
        let mut side = Secure::greeting(state, Arc::new([peer]));
        append(&mut side.outbound, &message[..len]);
        Ok(side)
    }

    /// Makes the side that answers, if the other side has one of the keys `known`.
    pub(super) fn second(own: &SecretKey, known: Arc<[PublicKey]>) -> Result<Secure, snow::Error> {
        Ok(Secure::greeting(builder(own)?.build_responder()?, known))
    }

    fn greeting(state: HandshakeState, known: Arc<[PublicKey]>) -> Secure {
        let (inbound, outbound) = (Vec::new(), Vec::new());
        let state = State::Greeting(Box::new(state));
        Secure { state, known, peer: None, inbound, outbound }
    }

    /// Returns the other side's key. Until the first message arrives, an attacker may be replaying an earlier
    /// handshake.
    pub(super) fn peer(&self) -> Option<PublicKey> {
        self.peer
    }

    /// Returns true if the other side has shown its key and messages can be sent. To the second side, only the first
    /// message proves that the handshake was not a replay.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Returns the bytes to be sent. The caller removes the bytes that it has sent.
    pub(super) fn outbound(&mut self) -> &mut Vec<u8> {
        &mut self.outbound
    }

    /// Adds received bytes.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        self.inbound.extend_from_slice(bytes);
    }

    /// Returns the next complete message. Call this until it returns `None`.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        loop {
            let Some((len, rest)) = self.inbound.split_first_chunk() else { return Ok(None) };
            let len = usize::from(u16::from_be_bytes(*len));
            if !self.is_open() && len > GREETING_MAX {
                return Err(Ended::Nonsense);
            }
            let Some(message) = rest.get(..len) else { return Ok(None) };
            let mut said = vec![0; len];
            let heard = match &mut self.state {
                State::Greeting(state) => state.read_message(message, &mut said),
                State::Open(state) => state.read_message(message, &mut said),
                State::Over => return Err(Ended::Nonsense),
            };
            self.inbound.drain(..2 + len);
            said.truncate(heard.map_err(|_| Ended::Nonsense)?);
            if self.is_open() {
                return Ok(Some(said));
            }
            self.greeted()?;
        }
    }

    /// Handles a received handshake message: answers it, or opens the conversation.
    fn greeted(&mut self) -> Result<(), Ended> {
        let State::Greeting(state) = &mut self.state else { return Ok(()) };
        let key = state.get_remote_static().and_then(|key| key.try_into().ok());
        let key = key.map(PublicKey::of).ok_or(Ended::Nonsense)?;
        if !self.known.contains(&key) {
            return Err(Ended::Unexpected(key));
        }
        self.peer = Some(key);
        if !state.is_handshake_finished() {
            let mut message = [0; GREETING_MAX];
            let len = state.write_message(&[], &mut message).map_err(|_| Ended::Nonsense)?;
            append(&mut self.outbound, &message[..len]);
        }
        // Opening the conversation consumes the handshake state.
        if let State::Greeting(state) = core::mem::replace(&mut self.state, State::Over) {
            let open = state.into_transport_mode().map_err(|_| Ended::Nonsense)?;
            self.state = State::Open(Box::new(open));
        }
        Ok(())
    }

    /// Sends a message in an open conversation. Drops a message that is too long.
    pub(super) fn say(&mut self, message: &[u8]) {
        let State::Open(state) = &mut self.state else { return };
        let len = message.len() + SEAL;
        if len > MESSAGE_MAX {
            return;
        }
        let mut sealed = vec![0; len];
        if let Ok(len) = state.write_message(message, &mut sealed) {
            append(&mut self.outbound, &sealed[..len]);
        }
    }
}

fn builder(own: &SecretKey) -> Result<Builder<'_>, snow::Error> {
    Builder::new(PATTERN.parse()?).prologue(PROLOGUE)?.local_private_key(own.bytes())
}

fn append(out: &mut Vec<u8>, message: &[u8]) {
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> [SecretKey; 3] {
        [0; 3].map(|_| SecretKey::generate().unwrap())
    }

    fn pair(a: &SecretKey, b: &SecretKey, expected: [&SecretKey; 2]) -> [Secure; 2] {
        [
            Secure::first(a, expected[1].public()).unwrap(),
            Secure::second(b, Arc::new([expected[0].public()])).unwrap(),
        ]
    }

    /// Lets the two sides exchange their messages. Returns the messages that each has received.
    fn exchange(sides: &mut [Secure; 2]) -> [Result<Vec<Vec<u8>>, Ended>; 2] {
        let mut heard = [Ok(Vec::new()), Ok(Vec::new())];
        for turn in 0..8 {
            let (from, to) = (turn % 2, 1 - turn % 2);
            let bytes = core::mem::take(sides[from].outbound());
            sides[to].received(&bytes);
            loop {
                match (sides[to].next(), &mut heard[to]) {
                    (Ok(Some(message)), Ok(all)) => all.push(message),
                    (Ok(_), _) => break,
                    (Err(ended), heard) => {
                        *heard = Err(ended);
                        break;
                    }
                }
            }
        }
        heard
    }

    #[test]
    fn two_agents_that_expect_each_other_hear_each_other() {
        let [a, b, _] = keys();
        let mut sides = pair(&a, &b, [&a, &b]);
        assert_eq!(exchange(&mut sides), [Ok(vec![]), Ok(vec![])]);
        assert!(sides.iter().all(Secure::is_open));
        sides[0].say(b"one");
        sides[0].say(b"two");
        sides[1].say(&[7; 400]);
        let said = [Ok(vec![vec![7; 400]]), Ok(vec![b"one".to_vec(), b"two".to_vec()])];
        assert_eq!(exchange(&mut sides), said);
    }

    #[test]
    fn answering_agent_learns_which_known_agent_called() {
        let [a, b, c] = keys();
        let known: Arc<[PublicKey]> = Arc::new([a.public(), c.public()]);
        for speaker in [&a, &c] {
            let first = Secure::first(speaker, b.public()).unwrap();
            let mut sides = [first, Secure::second(&b, known.clone()).unwrap()];
            assert_eq!(sides[1].peer(), None);
            assert_eq!(exchange(&mut sides), [Ok(vec![]), Ok(vec![])]);
            assert_eq!(sides[1].peer(), Some(speaker.public()));
            assert_eq!(sides[0].peer(), Some(b.public()));
        }
    }

    #[test]
    fn agent_of_another_key_is_refused() {
        let [a, b, stranger] = keys();
        let mut sides = pair(&stranger, &b, [&a, &b]);
        let [_, heard] = exchange(&mut sides);
        assert_eq!(heard, Err(Ended::Unexpected(stranger.public())));
        assert!(!sides[1].is_open());
    }

    #[test]
    fn agent_that_is_taken_for_another_one_understands_nothing() {
        let [a, b, other] = keys();
        let mut sides = pair(&a, &other, [&a, &b]);
        assert_eq!(exchange(&mut sides)[1], Err(Ended::Nonsense));
        assert!(!sides.iter().any(Secure::is_open));
    }

    /// A replayed handshake is of no use in a later conversation.
    #[test]
    fn greeting_that_is_repeated_opens_a_conversation_in_which_nothing_can_be_said() {
        let [a, b, _] = keys();
        let mut sides = pair(&a, &b, [&a, &b]);
        let greeting = sides[0].outbound().clone();
        assert!(exchange(&mut sides).iter().all(Result::is_ok));
        sides[0].say(b"terms");
        let terms = core::mem::take(sides[0].outbound());
        let mut later = Secure::second(&b, Arc::new([a.public()])).unwrap();
        later.received(&greeting);
        assert_eq!(later.next(), Ok(None));
        later.received(&terms);
        assert_eq!(later.next(), Err(Ended::Nonsense));
    }

    proptest! {
        #[test]
        fn changed_byte_is_found(at: prop::sample::Index, change in 1u8..) {
            let [a, b, _] = keys();
            let mut sides = pair(&a, &b, [&a, &b]);
            prop_assert!(exchange(&mut sides).iter().all(Result::is_ok));
            sides[0].say(b"a message of some length");
            let mut bytes = core::mem::take(sides[0].outbound());
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            sides[1].received(&bytes);
            // With a changed length, the receiver waits for more bytes or refuses the message.
            prop_assert!(!matches!(sides[1].next(), Ok(Some(_))));
        }

        #[test]
        fn arbitrary_bytes_open_nothing(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let [a, b, _] = keys();
            let mut side = Secure::second(&b, Arc::new([a.public()])).unwrap();
            side.received(&bytes);
            while matches!(side.next(), Ok(Some(_))) {}
            prop_assert!(!side.is_open());
        }
    }
}
