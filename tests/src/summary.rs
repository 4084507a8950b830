//! Reads the summary that `sovia run -v` prints at exit.

/// Returns the number of accelerated ends in the summary on a program's stderr; `None` if there is
/// no summary.
pub fn accelerated(stderr: &str) -> Option<u64> {
    if stderr.lines().any(|line| line.starts_with("sovia: no TCP connections seen")) {
        return Some(0);
    }
    let count = stderr.lines().find_map(|line| line.strip_prefix("sovia: accelerated: "))?;
    count.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::accelerated;

    #[test]
    fn the_count_follows_the_word() {
        let summary = "noise\nsovia: accelerated: 3 ends of connections\nsovia: stayed on TCP: 0\n";
        assert_eq!(accelerated(summary), Some(3));
        assert_eq!(accelerated("sovia: accelerated: 1 end of a connection\n"), Some(1));
        assert_eq!(accelerated("sovia: no TCP connections seen (…)\n"), Some(0));
        assert_eq!(accelerated("nothing here"), None);
    }
}
