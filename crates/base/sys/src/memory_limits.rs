//! Limits of this process's memory, as the kernel reports them.
//!
//! Functions for frequent questions use system calls and a small buffer on the stack, because callers may be in
//! the middle of any operation.

use crate::Fd;
use crate::call;
use core::ffi::CStr;

/// Length of the longest path of a control group's file that is read.
const PATH_MAX: usize = 512;

/// Reads the first bytes of a file.
fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = Fd::keep(call::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?);
    let n = call::read(file.raw(), buffer).ok()?;
    buffer.get(..n)
}

/// Returns the first decimal number in a text.
fn number(text: &[u8]) -> Option<u64> {
    let from = text.iter().position(u8::is_ascii_digit)?;
    let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(
        digits.fold(0u64, |n, &digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

/// Returns the number in a line of /proc/meminfo, in bytes.
fn meminfo(text: &[u8], name: &[u8]) -> Option<u64> {
    let line = text.split(|&byte| byte == b'\n').find(|line| line.starts_with(name))?;
    Some(number(line)? << 10)
}

/// Returns the host's total memory and its available memory, in bytes.
#[inline(never)]
pub fn host() -> Option<(u64, u64)> {
    let mut buffer = [0; 256];
    let text = read(c"/proc/meminfo", &mut buffer)?;
    Some((meminfo(text, b"MemTotal:")?, meminfo(text, b"MemAvailable:")?))
}

/// Returns the number of bytes that all TCP sockets of a host may hold (the third number of tcp_mem).
#[inline(never)]
pub fn tcp() -> Option<u64> {
    Some(largest_of(c"/proc/sys/net/ipv4/tcp_mem")?.saturating_mul(page_size()))
}

/// Returns how many bytes a TCP socket may send ahead, and may hold unread, if its program sets no sizes. The
/// values are the third numbers of tcp_wmem and tcp_rmem in this network namespace.
#[inline(never)]
pub fn tcp_buffers() -> Option<(u64, u64)> {
    let sends = largest_of(c"/proc/sys/net/ipv4/tcp_wmem")?;
    Some((sends, largest_of(c"/proc/sys/net/ipv4/tcp_rmem")?))
}

/// Returns the last of the three numbers in a file.
fn largest_of(path: &CStr) -> Option<u64> {
    let mut buffer = [0; 96];
    let text = read(path, &mut buffer)?;
    text.split(|byte| byte.is_ascii_whitespace()).filter_map(number).nth(2)
}

fn page_size() -> u64 {
    // SAFETY: `sysconf` takes only a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns the smallest limit of this process's control groups, in bytes. Returns `None` if there is no limit, or
/// if it cannot be read. Allocates its buffers, because the stack may be small.
#[inline(never)]
pub fn control_group() -> Option<u64> {
    let mut buffer = vec![0; 4096];
    let text = read(c"/proc/self/cgroup", &mut buffer)?;
    text.split(|&byte| byte == b'\n').filter_map(smallest_of).min()
}

/// Returns the smallest limit along one line of /proc/self/cgroup: `0::/PATH`, or `NUMBER:CONTROLLERS:/PATH`.
#[inline(never)]
fn smallest_of(line: &[u8]) -> Option<u64> {
    let mut fields = line.splitn(3, |&byte| byte == b':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, file): (&[u8], &[u8]) = if controllers.is_empty() {
        (b"/sys/fs/cgroup", b"/memory.max\0")
    } else if controllers.split(|&byte| byte == b',').any(|name| name == b"memory") {
        (b"/sys/fs/cgroup/memory", b"/memory.limit_in_bytes\0")
    } else {
        return None;
    };
    let mut smallest = None;
    let mut path = path.strip_suffix(b"/").unwrap_or(path);
    loop {
        if let Some(limit) = limit_in(root, path, file) {
            smallest = Some(limit.min(smallest.unwrap_or(u64::MAX)));
        }
        // Continue with the parent group.
        match path.iter().rposition(|&byte| byte == b'/') {
            Some(end) => path = &path[..end],
            None => return smallest,
        }
    }
}

#[inline(never)]
fn limit_in(root: &[u8], path: &[u8], file: &[u8]) -> Option<u64> {
    let mut name = vec![0; PATH_MAX];
    let mut end = 0;
    for part in [root, path, file] {
        name.get_mut(end..end + part.len())?.copy_from_slice(part);
        end += part.len();
    }
    let mut buffer = [0; 32];
    // The text "max" has no digits, so there is no number.
    number(read(CStr::from_bytes_until_nul(&name).ok()?, &mut buffer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_text() {
        assert_eq!(number(b"MemTotal:  24675384 kB\n"), Some(24_675_384));
        assert_eq!(number(b"max\n"), None);
        assert_eq!(number(b"99999999999999999999999"), Some(u64::MAX));
        assert_eq!(
            meminfo(b"MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable: 3 kB", b"MemAvailable:"),
            Some(3072)
        );
    }

    #[test]
    fn the_host_has_memory_and_a_limit_for_tcp() {
        let (total, available) = host().expect("/proc/meminfo can be read");
        assert!(total > 1 << 26 && available > 0 && available <= total);
        assert!(tcp().is_some_and(|bytes| bytes > 1 << 20));
        assert!(tcp_buffers().is_some_and(|(sends, holds)| sends > 0 && holds > 0));
    }

    #[test]
    fn lines_that_say_nothing_of_memory_limit_nothing() {
        assert_eq!(smallest_of(b""), None);
        assert_eq!(smallest_of(b"3:cpu,cpuacct:/"), None);
        assert_eq!(smallest_of(b"0::/no/such/group"), smallest_of(b"0::/"));
    }
}
