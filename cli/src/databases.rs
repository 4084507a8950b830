//! What the system's databases say of users and groups. Asked of `getent`: this program is linked statically, and libc's own
//! look-up would load libraries of the running system into it, which may be of another libc. Where there is no `getent` the databases know
//! nobody; that it cannot be started is an error.

use anyhow::Context;
use std::io::{self, ErrorKind};
use std::process::{Command, Stdio};

/// The name of the user with that number.
///
/// # Errors
/// The databases cannot be asked.
pub fn name_of_user(uid: u32) -> io::Result<Option<String>> {
    let entries = entries("passwd", &[&uid.to_string()])?;
    let name = entries.lines().next().and_then(|line| line.split(':').next());
    Ok(name.filter(|name| !name.is_empty()).map(str::to_owned))
}

/// The number of the user with that name. A number stands for itself where no database knows it, as in a small container.
///
/// # Errors
/// There is no such user, or the databases cannot be asked.
pub fn user(name: &str) -> anyhow::Result<u32> {
    let known = find_user(name).with_context(|| cannot_be_found(name))?.map(|user| user.uid);
    known.or_else(|| name.parse().ok()).with_context(|| is_none(name))
}

/// The numbers of the user with that name, and of its own group.
///
/// # Errors
/// As [`user`].
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

/// The numbers of a group's members: of those whose own group it is, as far as the databases list all users, and of those
/// that it lists; `None` if there is no such group.
///
/// # Errors
/// The databases cannot be asked.
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
    /// From a line `name:password:uid:gid:...`.
    fn of(line: &str) -> Option<User> {
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some(User { uid: numbers.next()?.ok()?, gid: numbers.next()?.ok()? })
    }
}

/// The lines of a database for these keys, or all of them; none if it has none.
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
