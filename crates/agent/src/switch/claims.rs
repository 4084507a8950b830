//! Decides which program gets the requests for a discriminator.
//!
//! The first program that listens at a discriminator has it. No program of another user gets it until the first
//! program leaves. A program that takes one request after another listens again for each. Between two requests,
//! another program of the same user may take its turn. So two programs of a user can share a discriminator, like the
//! threads of one program.

use std::collections::{HashMap, VecDeque};

/// Maximum number of discriminators at which one program may listen, now or earlier.
const OF_ONE: usize = 1 << 14;

/// Claims of programs, by discriminator. The oldest claim of each is first.
#[derive(Debug, Default)]
pub(super) struct Claims {
    at: HashMap<Box<[u8]>, VecDeque<Claim>>,
    /// Number of claims of each program.
    of: HashMap<u16, usize>,
}

/// A program's claim to a discriminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    program: u16,
    user: u32,
    /// Set while the program listens.
    listens: bool,
}

/// Error for a program that claims too many discriminators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl Claims {
    /// Records that a program listens at a discriminator, or pauses.
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

    /// Removes a program's claim to a discriminator.
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

    /// Removes all claims of a program.
    pub(super) fn forget(&mut self, program: u16) {
        if self.of.remove(&program).is_some_and(|count| count > 0) {
            self.at.retain(|_, claims| {
                claims.retain(|claim| claim.program != program);
                !claims.is_empty()
            });
        }
    }

    /// Returns the claim that counts at a discriminator.
    fn first(&self, at: &[u8]) -> Option<Claim> {
        let claims = self.at.get(at)?;
        let first = claims.front()?;
        let listening = claims.iter().find(|claim| claim.listens && claim.user == first.user);
        Some(*listening.unwrap_or(first))
    }

    /// Returns the program that gets the requests for a discriminator.
    pub(super) fn holder(&self, at: &[u8]) -> Option<u16> {
        self.first(at).map(|claim| claim.program)
    }

    /// Returns true if a program may use the discriminator in its own addresses.
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
    fn first_program_keeps_its_claim_until_its_end_then_the_next() {
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
        // The program has never listened there.
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
