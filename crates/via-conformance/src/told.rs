//! Errors that an error handler has received.

use super::until::{eventually, never};
use std::sync::{Arc, Mutex};
use via::{AsyncError, ErrorCode, Nic};

/// An error handler that records errors.
#[derive(Debug, Default)]
pub struct Told(Arc<Mutex<Vec<AsyncError>>>);

impl Told {
    /// Makes a record, and sets it as the NIC's error handler.
    pub fn by<N: Nic>(nic: &N) -> Told {
        let told = Told::default();
        let list = told.0.clone();
        nic.set_error_handler(Some(Arc::new(move |error: &AsyncError| {
            list.lock().unwrap().push(*error);
        })));
        told
    }

    /// Returns all errors so far.
    pub fn all(&self) -> Vec<AsyncError> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for an error for which `is_it` is true.
    #[track_caller]
    pub fn of(&self, what: &str, is_it: impl Fn(&AsyncError) -> bool) -> AsyncError {
        let mut found = None;
        eventually(what, || {
            found = self.all().into_iter().find(&is_it);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits for an error with this code, of the VI with this context.
    #[track_caller]
    pub fn code(&self, vi: u64, code: ErrorCode) -> AsyncError {
        self.of(&format!("{code:?} told of VI {vi}"), |error| {
            error.code == code && error.vi == Some(vi)
        })
    }

    /// Checks that no error is reported for a while.
    #[track_caller]
    pub fn nothing(&self) {
        never("an error is told", || !self.all().is_empty());
    }
}
