//! What an error handler heard.

use super::until::{eventually, never};
use std::sync::{Arc, Mutex};
use via::{AsyncError, ErrorCode, Nic};

/// An error handler that notes what it is told.
#[derive(Debug, Default)]
pub struct Told(Arc<Mutex<Vec<AsyncError>>>);

impl Told {
    /// Has a NIC tell a new one.
    pub fn by<N: Nic>(nic: &N) -> Told {
        let told = Told::default();
        let list = told.0.clone();
        nic.set_error_handler(Some(Arc::new(move |error: &AsyncError| {
            list.lock().unwrap().push(*error);
        })));
        told
    }

    /// Everything until now.
    pub fn all(&self) -> Vec<AsyncError> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for an error like this.
    #[track_caller]
    pub fn of(&self, what: &str, is_it: impl Fn(&AsyncError) -> bool) -> AsyncError {
        let mut found = None;
        eventually(what, || {
            found = self.all().into_iter().find(&is_it);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits for an error of that code of the VI with this context.
    #[track_caller]
    pub fn code(&self, vi: u64, code: ErrorCode) -> AsyncError {
        self.of(&format!("{code:?} told of VI {vi}"), |error| {
            error.code == code && error.vi == Some(vi)
        })
    }

    /// Nothing is told, for a while.
    #[track_caller]
    pub fn nothing(&self) {
        never("an error is told", || !self.all().is_empty());
    }
}
