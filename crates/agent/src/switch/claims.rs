//! Which program is asked at which discriminator.
//!
//! The first program that listens there has it, and no program of another user gets it until that one leaves. A program that takes one
//! request after the other listens anew for each. In between, a program of the same user may take its turn: two of them may
//! deal with one discriminator as the threads of a program may.

use std::collections::{HashMap, VecDeque};

/// Discriminators at which one program may listen, or have listened.
const OF_ONE: usize = 1 << 14;

/// Programs, by the discriminators at which they listen, the first one first.
#[derive(Debug, Default)]
pub(super) struct Claims {
    at: HashMap<Box<[u8]>, VecDeque<Claim>>,
    /// At how many each listens.
    of: HashMap<u16, usize>,
}

/// A program at a discriminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    program: u16,
    user: u32,
    /// It listens now.
    listens: bool,
}

/// A program listens at more discriminators than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl Claims {
    /// A program listens there from now on, or does not just now.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(super) fn listen(
        &mut self,
        (program, user): (u16, u32),
        at: &[u8],
        listens: bool,
    ) -> Result<(), TooMany> {
        if let Some(claims) = self.at.get_mut(at)
            && let Some(claim) = claims.iter_mut().find(|claim| claim.program == program)
        {
            claim.listens = listens;
            return Ok(());
        }
        if !listens {
            return Ok(());
        }
        let claims = self.at.entry(at.into()).or_default();
        claims.push_back(Claim { program, user, listens });
        let count = self.of.entry(program).or_default();
        *count += 1;
        if *count > OF_ONE { Err(TooMany) } else { Ok(()) }
    }

    /// It does not listen there any more.
    pub(super) fn leave(&mut self, program: u16, at: &[u8]) {
        let Some(claims) = self.at.get_mut(at) else { return };
        let before = claims.len();
        claims.retain(|claim| claim.program != program);
        if claims.len() < before
            && let Some(count) = self.of.get_mut(&program)
        {
            *count -= 1;
        }
        if claims.is_empty() {
            self.at.remove(at);
        }
    }

    /// It listens nowhere any more.
    pub(super) fn forget(&mut self, program: u16) {
        if self.of.remove(&program).is_some_and(|count| count > 0) {
            self.at.retain(|_, claims| {
                claims.retain(|claim| claim.program != program);
                !claims.is_empty()
            });
        }
    }

    /// The claim that counts there.
    fn first(&self, at: &[u8]) -> Option<Claim> {
        let claims = self.at.get(at)?;
        let first = claims.front()?;
        let listening = claims.iter().find(|claim| claim.listens && claim.user == first.user);
        Some(*listening.unwrap_or(first))
    }

    /// The program that is asked there.
    pub(super) fn holder(&self, at: &[u8]) -> Option<u16> {
        self.first(at).map(|claim| claim.program)
    }

    /// Whether a program may name it as its own.
    pub(super) fn may_name(&self, (program, user): (u16, u32), at: &[u8]) -> bool {
        self.first(at)
            .is_none_or(|claim| claim.program == program || !claim.listens && claim.user == user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (u16, u32) = (1, 1000);
    const TWO: (u16, u32) = (2, 1000);
    const STRANGER: (u16, u32) = (3, 1001);

    #[test]
    fn first_program_has_it_until_it_leaves_and_then_the_next() {
        let mut claims = Claims::default();
        for program in [ONE, TWO, ONE, STRANGER] {
            claims.listen(program, b"x", true).unwrap();
        }
        assert!(claims.may_name(ONE, b"x") && !claims.may_name(TWO, b"x"));
        assert!(claims.may_name(TWO, b"y") && !claims.may_name(STRANGER, b"x"));
        claims.leave(2, b"x");
        assert_eq!(claims.holder(b"x"), Some(1));
        claims.forget(1);
        assert_eq!(claims.holder(b"x"), Some(3));
        claims.leave(3, b"x");
        claims.leave(3, b"x");
        assert_eq!((claims.holder(b"x"), claims.at.len(), claims.of[&3]), (None, 0, 0));
    }

    #[test]
    fn programs_of_one_user_take_turns_and_others_do_not() {
        let mut claims = Claims::default();
        for program in [ONE, STRANGER, TWO] {
            claims.listen(program, b"x", true).unwrap();
        }
        claims.listen(ONE, b"x", false).unwrap();
        assert_eq!(claims.holder(b"x"), Some(2));
        claims.listen(TWO, b"x", false).unwrap();
        assert_eq!(claims.holder(b"x"), Some(1), "the stranger listens and waits");
        assert!(claims.may_name(TWO, b"x") && !claims.may_name(STRANGER, b"x"));
        claims.listen(ONE, b"x", true).unwrap();
        assert!(!claims.may_name(TWO, b"x"));
        // It has never listened there.
        claims.listen(TWO, b"y", false).unwrap();
        assert_eq!(claims.holder(b"y"), None);
    }

    #[test]
    fn one_program_listens_at_so_many_and_no_more() {
        let mut claims = Claims::default();
        for n in 0..OF_ONE {
            assert_eq!(claims.listen(ONE, &n.to_le_bytes(), true), Ok(()));
        }
        assert_eq!(claims.listen(ONE, b"one more", true), Err(TooMany));
        claims.forget(1);
        assert!(claims.at.is_empty());
    }
}
