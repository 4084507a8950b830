//! Entry points for `fuzz/` to the agents' TCP connection ([`crate::fuzzing`]).

use super::key::SecretKey;
use super::secure::Secure;
use super::terms::Terms;
use std::sync::{Arc, OnceLock};

pub(crate) fn terms(bytes: &[u8]) {
    if let Ok(terms) = Terms::decode(bytes) {
        assert_eq!(Terms::decode(&terms.encode()), Ok(terms));
    }
}

pub(crate) fn conversation(said: &[&[u8]], mut change: impl FnMut(&mut Vec<u8>)) {
    static KEYS: OnceLock<[SecretKey; 2]> = OnceLock::new();
    let key = || SecretKey::generate().expect("the kernel has random bytes");
    let [a, b] = KEYS.get_or_init(|| [key(), key()]);
    let first = Secure::first(a, b.public()).expect("two keys");
    let second = Secure::second(b, Arc::new([a.public()])).expect("two keys");
    let mut sides = [first, second];
    let (mut spoken, mut heard) = ([0; 2], [0; 2]);
    let mut is_over = [false; 2];
    for turn in 0..said.len() + 3 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        if sides[from].is_open()
            && let Some(message) = said.get(spoken[from])
        {
            sides[from].say(message);
            spoken[from] += 1;
        }
        let mut bytes = core::mem::take(sides[from].outbound());
        change(&mut bytes);
        sides[to].received(&bytes);
        while !is_over[to] {
            match sides[to].next() {
                Ok(Some(message)) => {
                    assert!(heard[to] < spoken[from], "more than was said");
                    assert_eq!(message, said[heard[to]]);
                    heard[to] += 1;
                }
                Ok(None) => break,
                Err(_) => is_over[to] = true,
            }
        }
    }
}
