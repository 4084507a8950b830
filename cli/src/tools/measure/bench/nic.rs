//! Places of NICs for a measurement's VIs, if the VIs are not in shared memory.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sovia_nic::AnyNic;

use super::task::Role;

/// Places of both ends' NICs, in the form of [`AnyNic::open_at`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Places {
    requester: String,
    responder: String,
}

impl Places {
    /// Returns the place of an end's NIC.
    pub(super) fn of(&self, role: Role) -> &str {
        match role {
            Role::Requester => &self.requester,
            Role::Responder => &self.responder,
        }
    }

    /// Opens both NICs and closes them again.
    ///
    /// # Errors
    /// The reason why a NIC cannot be opened. Without this check both ends would report it.
    pub(super) fn probe(&self) -> Result<(), sovia_nic::OpenError> {
        [Role::Requester, Role::Responder]
            .into_iter()
            .try_for_each(|role| AnyNic::open_at(self.of(role)).map(drop))
    }
}

impl FromStr for Places {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (requester, responder) = text.split_once(',').unwrap_or((text, text));
        if [requester, responder].iter().any(|place| place.is_empty() || place.contains(',')) {
            return Err("expected one place, or two as REQUESTER,RESPONDER".to_owned());
        }
        Ok(Self { requester: requester.to_owned(), responder: responder.to_owned() })
    }
}

impl TryFrom<String> for Places {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Places> for String {
    fn from(places: Places) -> String {
        places.to_string()
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requester, responder } = self;
        if requester == responder {
            return f.write_str(requester);
        }
        write!(f, "{requester},{responder}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_a_place() {
        let both: Places = "ofi:tcp;ofi_rxm@10.0.0.1".parse().unwrap();
        assert_eq!(both.of(Role::Requester), both.of(Role::Responder));
        let each: Places = "eth:a,eth:b".parse().unwrap();
        assert_eq!((each.of(Role::Requester), each.of(Role::Responder)), ("eth:a", "eth:b"));
        for places in [both, each] {
            assert_eq!(places.to_string().parse(), Ok(places));
        }
        for bad in ["", ",", "eth:a,", "a,b,c"] {
            assert!(bad.parse::<Places>().is_err(), "{bad}");
        }
    }
}
