//! libsovia-emp: EMP for C. `include/emp.h` says what each function does, docs/develop/emp.md is the guide.
//!
//! - `boundary`: what every exported function has around it;
//! - `types`: the structures, as C lays them out;
//! - `station`: from `emp_init` to `emp_finish`;
//! - `transfer`: posts, and what comes of them.

mod boundary;
mod station;
mod transfer;
pub mod types;

pub use station::{emp_address, emp_finish, emp_init};
pub use transfer::{emp_cancel, emp_post_recv, emp_post_send, emp_test, emp_wait};

#[cfg(test)]
mod header_tests;
