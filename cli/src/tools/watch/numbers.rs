//! Numbers of processes and ports in the command line.

/// Parses a process ID.
pub(crate) fn pid(text: &str) -> Result<i32, String> {
    positive(text).ok_or_else(|| "expected a process ID, such as 4711".to_owned())
}

/// Parses a port.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    let port = positive(text).and_then(|number| u16::try_from(number).ok());
    port.ok_or_else(|| "expected a port from 1 to 65535".to_owned())
}

/// Parses a number that is a process ID or a port.
pub(crate) fn pid_or_port(text: &str) -> Result<i32, String> {
    positive(text).ok_or_else(|| "expected a process ID or a port, such as 6379".to_owned())
}

fn positive(text: &str) -> Option<i32> {
    text.parse().ok().filter(|&number| number > 0)
}

/// Checks that a process exists.
///
/// # Errors
/// An error if it does not exist.
pub(crate) fn ensure_exists(pid: i32) -> anyhow::Result<()> {
    anyhow::ensure!(sovia_stats_page::exists(pid), "there is no process {pid}");
    Ok(())
}
