//! Looks users and groups up in the system's databases.
//!
//! Runs `getent`, because this program is linked statically: libc's own look-up would load libraries of the running
//! system, which may belong to another libc. Without `getent`, the databases count as empty. Other failures to start it
//! are errors.

use anyhow::Context;
use std::io::{self, ErrorKind};
use std::process::{Command, Stdio};

/// Returns the name of the user with this ID.
///
/// # Errors
/// An error if `getent` cannot be run.
pub fn name_of_user(uid: u32) -> io::Result<Option<String>> {
    let entries = entries("passwd", &[&uid.to_string()])?;
    let name = entries.lines().next().and_then(|line| line.split(':').next());
    Ok(name.filter(|name| !name.is_empty()).map(str::to_owned))
}

/// Returns the ID of the user with this name. A name that is a number and that no database knows is the ID itself, as
/// in a small container.
///
/// # Errors
/// An error if there is no such user, or if `getent` cannot be run.
pub fn user(name: &str) -> anyhow::Result<u32> {
    let known = find_user(name).with_context(|| cannot_be_found(name))?.map(|user| user.uid);
    known.or_else(|| name.parse().ok()).with_context(|| is_none(name))
}

/// Returns the IDs of the user with this name and of the user's primary group.
///
/// # Errors
/// Like [`user`].
pub fn user_and_group(name: &str) -> anyhow::Result<(u32, u32)> {
    let known = find_user(name).with_context(|| cannot_be_found(name))?;
    known.map(|user| (user.uid, user.gid)).with_context(|| is_none(name))
}

fn cannot_be_found(name: &str) -> String {
    format!("cannot look up the user `{name}` with getent")
}

fn is_none(name: &str) -> String {
    format!("there is no user `{name}`")
}

fn find_user(name: &str) -> io::Result<Option<User>> {
    Ok(entries("passwd", &[name])?.lines().find_map(User::of))
}

/// Returns the user IDs of a group's members; `None` if there is no such group. Members are the users whose primary
/// group it is, as far as the databases list all users, and the users in the group's own list.
///
/// # Errors
/// An error if `getent` cannot be run.
pub fn members_of(group: &str) -> io::Result<Option<Vec<u32>>> {
    let entry = entries("group", &[group])?;
    let mut fields = entry.lines().next().unwrap_or_default().split(':').skip(2);
    let Some(gid) = fields.next().and_then(|gid| gid.parse::<u32>().ok()) else { return Ok(None) };
    let listed = fields.next().unwrap_or_default().split(',').filter(|name| !name.is_empty());
    let listed = listed.map(find_user).collect::<io::Result<Vec<_>>>()?;
    let listed = listed.into_iter().flatten();
    let all = entries("passwd", &[])?;
    let own = all.lines().filter_map(User::of).filter(|user| user.gid == gid);
    let mut members: Vec<u32> = own.chain(listed).map(|user| user.uid).collect();
    members.sort_unstable();
    members.dedup();
    Ok(Some(members))
}

struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// Parses a line `name:password:uid:gid:...`.
    fn of(line: &str) -> Option<User> {
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some(User { uid: numbers.next()?.ok()?, gid: numbers.next()?.ok()? })
    }
}

/// Returns a database's lines for the given keys, or all lines; empty if there are none.
fn entries(database: &str, keys: &[&str]) -> io::Result<String> {
    let mut getent = Command::new("getent");
    getent.arg(database).arg("--").args(keys).env_remove("LD_PRELOAD").stderr(Stdio::null());
    match getent.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8(output.stdout).unwrap_or_default())
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(String::new()),
    }
}
