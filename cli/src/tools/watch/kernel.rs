//! The kernel's data about TCP sockets and their processes, with or without Sovia.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sovia_cli::system_rules::leave_alone;
use sovia_stats_page::shown;

/// A TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) is_listening: bool,
    pub(crate) uid: u32,
    pub(crate) inode: u64,
}

/// Returns the TCP sockets in a process's network namespace, or in this process's.
pub(crate) fn sockets(pid: Option<i32>) -> Vec<Socket> {
    let process = pid.map_or("self".to_owned(), |pid| pid.to_string());
    let tables =
        ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{process}/net/{name}")));
    let text: String = tables.into_iter().flatten().collect();
    text.lines().filter_map(socket).collect()
}

fn socket(line: &str) -> Option<Socket> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, peer, state, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
    Some(Socket {
        local: address(local)?,
        peer: address(peer)?,
        is_listening: state == LISTEN,
        uid: uid.parse().ok()?,
        inode: inode.parse().ok()?,
    })
}

/// Parses an address such as `0100007F:1F90`: 32-bit words in host byte order, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?.to_ne_bytes()).into(),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// A process that owns a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: i32,
    pub(crate) program: String,
    /// Command line as a person would type it, quoted for a shell.
    pub(crate) command: String,
    /// True if Sovia's library is loaded and the system's rules do not make it inactive; `None` if this process may not
    /// look.
    pub(crate) has_library: Option<bool>,
}

impl Owner {
    pub(crate) fn of(pid: i32) -> Option<Owner> {
        let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
        let command = words.map(|word| quoted(&shown(word))).collect::<Vec<_>>().join(" ");
        // Paths of files may not be UTF-8.
        let maps = fs::read(format!("/proc/{pid}/maps"));
        Some(Owner {
            pid,
            program: shown(comm.strip_suffix(b"\n").unwrap_or(&comm)),
            command,
            has_library: maps.ok().map(|maps| {
                let maps = String::from_utf8_lossy(&maps);
                // libsovia serves a program that is written for Sovia, even if the preloaded library is inactive.
                let is_native = maps.contains("/libsovia.so");
                let is_preloaded = maps.contains("/libsovia_preload");
                is_native || is_preloaded && !leave_alone(pid)
            }),
        })
    }
}

/// Returns a word of a command line, quoted if a shell would change it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the owners of sockets by inode, among the processes that this process may inspect.
pub(crate) fn owners(inodes: &HashSet<u64>) -> HashMap<u64, Owner> {
    let mut found = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for pid in ids {
        // Read once for each process, which may have thousands of sockets.
        let mut owner: Option<Option<Owner>> = None;
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for link in open.filter_map(|entry| fs::read_link(entry.path()).ok()) {
            let inode = link.to_str().and_then(|link| {
                link.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()
            });
            if let Some(inode) =
                inode.filter(|inode| inodes.contains(inode) && !found.contains_key(inode))
            {
                let owner = owner.get_or_insert_with(|| Owner::of(pid)).clone();
                found.extend(owner.map(|owner| (inode, owner)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    #[test]
    fn a_line_of_the_kernels_table_is_a_socket() {
        let line = "   1: 0100007F:1F90 0200007F:C350 01 00000000:00000000 00:00000000 00000000   112        0 4711 1 0";
        let expected = Socket {
            local: "127.0.0.1:8080".parse().unwrap(),
            peer: "127.0.0.2:50000".parse().unwrap(),
            is_listening: false,
            uid: 112,
            inode: 4711,
        };
        if cfg!(target_endian = "little") {
            assert_eq!(socket(line), Some(expected));
        }
        assert_eq!(socket("  sl  local_address rem_address   st tx_queue"), None);
    }

    #[test]
    fn mapped_addresses_are_those_of_the_other_family() {
        if cfg!(target_endian = "little") {
            let mapped = address("0000000000000000FFFF00000100007F:0050");
            assert_eq!(mapped, Some("127.0.0.1:80".parse().unwrap()));
        }
        assert_eq!(address("zz:1"), None);
    }

    #[test]
    fn a_mapped_file_whose_path_is_no_text_hides_no_library() {
        let dir = std::env::temp_dir();
        let name = [b"sovia-\xff-".as_slice(), std::process::id().to_string().as_bytes()].concat();
        let path = dir.join(OsStr::from_bytes(&name));
        // The removed file of the running program is still mapped.
        fs::copy("/bin/sleep", &path).unwrap();
        let mut child = Command::new(&path).arg("600").spawn().unwrap();
        fs::remove_file(&path).unwrap();
        let owner = Owner::of(child.id() as i32);
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(owner.unwrap().has_library, Some(false));
    }

    #[test]
    fn what_a_shell_would_take_apart_is_quoted() {
        assert_eq!(quoted("--port=80"), "--port=80");
        assert_eq!(quoted("a b; c"), "'a b; c'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
