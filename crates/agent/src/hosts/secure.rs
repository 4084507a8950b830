//! A conversation of two agents over a byte stream: each shows that it has its key, and no other process can
//! read or change what they say. Noise's pattern IK (Noise Protocol Framework, revision 34, section 7.5), each message
//! behind its length (u16, big-endian). A state machine: bytes go in, bytes and messages come out.

use super::key::{PublicKey, SecretKey};
use snow::{Builder, HandshakeState, TransportState};
use std::sync::Arc;

/// Agents of different versions do not understand each other at all.
const PROLOGUE: &[u8] = b"sovia agent 1";
const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// The longest message, sealed, and what sealing adds; the longest one of a greeting.
const MESSAGE_MAX: usize = 65535;
const SEAL: usize = 16;
const GREETING_MAX: usize = 512;

/// Why a conversation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ended {
    /// What came was not of this conversation, or of no agent.
    #[error("no Sovia agent answers there, or its key differs from the expected one")]
    Nonsense,
    /// It is an agent whose key is not expected.
    #[error("the agent there has the key {0}, which no --peer of this agent has")]
    Unexpected(PublicKey),
}

enum State {
    Greeting(Box<HandshakeState>),
    Open(Box<TransportState>),
    /// Nothing can be said or heard any more.
    Over,
}

/// One side of a conversation.
pub(super) struct Secure {
    state: State,
    /// The keys of which the other side has to have one.
    known: Arc<[PublicKey]>,
    /// The one that it has shown.
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
    /// The side that speaks first, to one that has to have the key `peer`.
    pub(super) fn first(own: &SecretKey, peer: PublicKey) -> Result<Secure, snow::Error> {
        let mut state = builder(own)?.remote_public_key(peer.bytes())?.build_initiator()?;
        let mut message = [0; GREETING_MAX];
        let len = state.write_message(&[], &mut message)?;
        let mut side = Secure::greeting(state, Arc::new([peer]));
        append(&mut side.outbound, &message[..len]);
        Ok(side)
    }

    /// The side that answers, if the other one has one of the keys `known`.
    pub(super) fn second(own: &SecretKey, known: Arc<[PublicKey]>) -> Result<Secure, snow::Error> {
        Ok(Secure::greeting(builder(own)?.build_responder()?, known))
    }

    fn greeting(state: HandshakeState, known: Arc<[PublicKey]>) -> Secure {
        let (inbound, outbound) = (Vec::new(), Vec::new());
        let state = State::Greeting(Box::new(state));
        Secure { state, known, peer: None, inbound, outbound }
    }

    /// The key that the other side has shown. Until the first message it may be one that repeats what the owner of that key has
    /// said to this side before.
    pub(super) fn peer(&self) -> Option<PublicKey> {
        self.peer
    }

    /// Whether the other side has shown its key, and messages can be said. What the first side says is the first
    /// thing that shows the second one that it is there now.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Bytes to be sent; those that have been are to be drained.
    pub(super) fn outbound(&mut self) -> &mut Vec<u8> {
        &mut self.outbound
    }

    /// Bytes have come.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        self.inbound.extend_from_slice(bytes);
    }

    /// The next message that has come whole, if there is one. To be asked until there is none.
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

    /// A message of the greeting has come: it is answered, or the conversation is open.
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
        // A greeting is used up by what it becomes.
        if let State::Greeting(state) = core::mem::replace(&mut self.state, State::Over) {
            let open = state.into_transport_mode().map_err(|_| Ended::Nonsense)?;
            self.state = State::Open(Box::new(open));
        }
        Ok(())
    }

    /// Says something, once the conversation is open; what is longer than a message may be is not said.
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

    /// Has them exchange what they have to say, and gives what each has heard.
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
    fn agent_that_answers_learns_which_of_those_it_knows_speaks() {
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

    /// What one side has said once says nothing to a later conversation.
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
            // A changed length waits for more, or is refused.
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
