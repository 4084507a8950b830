//! Ends of connections for tests, and functions that bring a connection into a given state, for example onto the VI or
//! back to TCP ([`At`]).

mod end;
mod engines;
mod epoll;
mod link;

pub(super) use end::*;
pub(super) use engines::*;
pub(super) use epoll::*;
pub(super) use link::*;
use std::time::Duration;

/// Limit of a wait for a fact. A watchdog: a case that takes so long has failed.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Limit of a call that waits, in nanoseconds. It is longer than [`WATCHDOG`]: a call that finds something only once it gives
/// up, because nothing has woken it, comes too late.
pub(super) const CALL_NS: u64 = 2 * WATCHDOG.as_secs() * 1_000_000_000;

/// Bytes that lie unread in the places that are reached with unread bytes.
pub(super) const UNREAD: usize = 1_000;

/// Makes cases of functions that take a [`Link`]: one for each function, place and direction. What the function checks must
/// hold of the kernel's own connections as well, which is the first place.
macro_rules! cases {
    ($($function:ident at $($(#[$attribute:meta])* $place:ident)+;)+) => {
        $(mod $function {
            #[test]
            fn of_the_kernel() {
                super::$function(super::super::harness::at::kernel(crate::conn::Role::Connector));
            }
            $(mod $place {
                $(#[$attribute])*
                #[test]
                fn from_the_connector() {
                    super::super::$function(super::super::super::harness::at::$place(crate::conn::Role::Connector));
                }
                $(#[$attribute])*
                #[test]
                fn from_the_acceptor() {
                    super::super::$function(super::super::super::harness::at::$place(crate::conn::Role::Acceptor));
                }
            })+
        })+
    };
}
pub(super) use cases;
