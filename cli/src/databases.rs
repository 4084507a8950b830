//! What the system's databases say of users and groups. Asked of `getent`: this program is linked statically, and libc's own
//! look-up would load libraries of the running system into it, which may be of another libc.

use std::process::{Command, Stdio};

/// The name of the user with that number.
pub fn name_of_user(uid: u32) -> Option<String> {
    let entries = entries("passwd", &[&uid.to_string()])?;
    entries.lines().next()?.split(':').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The number of the user with that name.
pub fn user(name: &str) -> Option<u32> {
    entries("passwd", &[name])?.lines().find_map(|line| Some(User::of(line)?.uid))
}

/// The numbers of the user with that name, and of its own group.
pub fn user_and_group(name: &str) -> Option<(u32, u32)> {
    entries("passwd", &[name])?.lines().find_map(|line| User::of(line).map(|it| (it.uid, it.gid)))
}

/// The numbers of a group's members: of those whose own group it is, as far as the databases list all users, and of those
/// that it lists.
pub fn members_of(group: &str) -> Option<Vec<u32>> {
    let entry = entries("group", &[group])?;
    let mut fields = entry.lines().next()?.split(':').skip(2);
    let gid: u32 = fields.next()?.parse().ok()?;
    let listed = fields.next().unwrap_or_default().split(',').filter_map(|name| match name {
        "" => None,
        name => user(name),
    });
    let all = entries("passwd", &[]).unwrap_or_default();
    let own = all.lines().filter_map(User::of).filter(|user| user.gid == gid).map(|user| user.uid);
    let mut members: Vec<u32> = own.chain(listed).collect();
    members.sort_unstable();
    members.dedup();
    Some(members)
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

fn entries(database: &str, keys: &[&str]) -> Option<String> {
    let mut getent = Command::new("getent");
    getent.arg(database).arg("--").args(keys).env_remove("LD_PRELOAD").stderr(Stdio::null());
    let output = getent.output().ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()
}
