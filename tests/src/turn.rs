//! Ways of a test that take turns: each run of `make test` has some of them, drawn by its commit, `make test-all` has all.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns `count` of `ways`, drawn for the test `what`, or all of them without `SOVIA_TESTS_TURN`.
pub fn in_turn<T: Clone>(what: impl Hash, ways: &[T], count: usize) -> Vec<T> {
    match env::var("SOVIA_TESTS_TURN") {
        Ok(turn) if !turn.is_empty() => {
            let mut hasher = DefaultHasher::new();
            (what, turn).hash(&mut hasher);
            drawn(ways, count, hasher.finish())
        }
        _ => ways.to_vec(),
    }
}

/// Returns `count` of `ways`, which follow each other.
fn drawn<T: Clone>(ways: &[T], count: usize, draw: u64) -> Vec<T> {
    let first = draw as usize % ways.len().max(1);
    ways.iter().cycle().skip(first).take(count.min(ways.len())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_its_turn() {
        for count in 1..=4 {
            for way in 0..3 {
                let some: Vec<_> = (0..3).map(|draw| drawn(&[0, 1, 2], count, draw)).collect();
                assert!(some.iter().all(|some| some.len() == count.min(3)));
                assert!(some.iter().flatten().any(|&one| one == way));
            }
        }
        assert!(drawn::<u8>(&[], 1, 7).is_empty());
    }
}
