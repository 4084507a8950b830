//! Which users a rule `trust:` names.

use core::fmt;

/// Users, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// Whichever.
    Any,
    /// That one.
    One(u32),
}

impl Users {
    /// A number, as in `uid=112`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The last number stands for none, in every call that takes one.
        text.parse().ok().filter(|&uid| uid != u32::MAX).map(Self::One)
    }

    /// Whether that user is one of them; `None` for one who has no number here.
    pub(crate) fn contains(self, uid: Option<u32>) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => uid == Some(one),
        }
    }
}

/// The term that names them.
impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(ANY),
            Self::One(uid) => write!(f, "uid={uid}"),
        }
    }
}

/// The term for all users.
pub(crate) const ANY: &str = "any";
