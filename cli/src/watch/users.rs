//! Names of users, each asked for once.

use std::cell::RefCell;
use std::collections::HashMap;

use sovia_board::shown;
use sovia_cli::databases;

/// The names that are known so far.
#[derive(Debug, Default)]
pub(crate) struct Users(RefCell<HashMap<u32, String>>);

impl Users {
    /// The user's name, or number where the databases know none.
    pub(crate) fn name(&self, uid: u32) -> String {
        let find = || match databases::name_of_user(uid) {
            Ok(Some(name)) => shown(name.as_bytes()),
            _ => uid.to_string(),
        };
        self.0.borrow_mut().entry(uid).or_insert_with(find).clone()
    }
}
