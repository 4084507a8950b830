//! Users that a `trust:` rule names.

use core::fmt;

/// Users, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// Any user.
    Any,
    /// The user with this number.
    One(u32),
}

impl Users {
    /// Parses the user's number in a term such as `uid=112`. `text` is the part after `=`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // In system calls the highest number means "no user".
        text.parse().ok().filter(|&uid| uid != u32::MAX).map(Self::One)
    }

    /// Returns true if these users include `uid`. `uid` is `None` for a user without a number in this user
    /// namespace.
    pub(crate) fn contains(self, uid: Option<u32>) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => uid == Some(one),
        }
    }
}

/// Writes the term that names these users.
impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(ANY),
            Self::One(uid) => write!(f, "uid={uid}"),
        }
    }
}

/// Term for all users.
pub(crate) const ANY: &str = "any";
