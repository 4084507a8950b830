//! Variants of a test that take turns. Each run of `make test` runs some of them, selected by its commit; `make
//! test-all` runs all.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Number by which variants are selected; without it, all are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn(pub(crate) Option<u64>);

impl Turn {
    /// Returns the turn of the test `what`, by `SOVIA_TESTS_TURN`.
    pub(crate) fn of(what: impl Hash) -> Turn {
        let turn = env::var("SOVIA_TESTS_TURN").ok().filter(|turn| !turn.is_empty());
        Turn(turn.map(|turn| {
            let mut hasher = DefaultHasher::new();
            (what, turn).hash(&mut hasher);
            hasher.finish()
        }))
    }

    /// Returns `count` consecutive `ways`, or all of them.
    pub(crate) fn some_of<T: Clone>(self, ways: &[T], count: usize) -> Vec<T> {
        let Some(draw) = self.0 else { return ways.to_vec() };
        let first = draw as usize % ways.len().max(1);
        ways.iter().cycle().skip(first).take(count.min(ways.len())).cloned().collect()
    }
}

/// Returns `count` of `ways`, selected for the test `what`, or all of them without
/// `SOVIA_TESTS_TURN`.
pub fn in_turn<T: Clone>(what: impl Hash, ways: &[T], count: usize) -> Vec<T> {
    Turn::of(what).some_of(ways, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_turn() {
        for count in 1..=4 {
            for way in 0..3 {
                let drawn = |draw| Turn(Some(draw)).some_of(&[0, 1, 2], count);
                let some: Vec<_> = (0..3).map(drawn).collect();
                assert!(some.iter().all(|some| some.len() == count.min(3)));
                assert!(some.iter().flatten().any(|&one| one == way));
            }
        }
        assert!(Turn(Some(7)).some_of::<u8>(&[], 1).is_empty());
        assert_eq!(Turn(None).some_of(&[0, 1, 2], 1), [0, 1, 2]);
    }
}
