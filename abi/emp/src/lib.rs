//! libsovia-emp: EMP for C. `include/emp.h` documents each function, and docs/develop/emp.md is the guide.
//!
//! - `boundary`: the wrapper of every exported function;
//! - `types`: the structures, with the layout of C;
//! - `station`: from `emp_init` to `emp_finish`;
//! - `transfer`: posts and their outcomes.

mod boundary;
mod station;
mod transfer;
pub mod types;

pub use station::{emp_address, emp_finish, emp_init};
pub use transfer::{emp_cancel, emp_post_recv, emp_post_send, emp_test, emp_wait};

#[cfg(test)]
mod header_tests;
