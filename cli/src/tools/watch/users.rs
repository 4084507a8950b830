//! Names of users. Each name is looked up once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sovia_cli::databases;
use sovia_stats_page::shown;

/// The names found so far.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<HashMap<u32, String>>);

impl Users {
    /// Returns the user's name, or the ID if the databases do not know the user.
    pub(crate) fn name(&self, uid: u32) -> String {
        let find = || match databases::name_of_user(uid) {
            Ok(Some(name)) => shown(name.as_bytes()),
            _ => uid.to_string(),
        };
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(uid).or_insert_with(find).clone()
    }
}
