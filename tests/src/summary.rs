//! What `sovia run -v` says at exit, read in one place.

/// How many connections the summary on a program's stderr calls accelerated;
/// `None` if there is no summary.
///
/// With several processes under one `sovia run` each number counts.
pub fn accelerated(stderr: &str) -> Option<u64> {
    let counts = stderr.lines().filter_map(|line| {
        let (_, rest) = line.split_once("accelerated ")?;
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    });
    counts.reduce(|sum, count| sum + count)
}

#[cfg(test)]
mod tests {
    use super::accelerated;

    #[test]
    fn the_count_follows_the_word() {
        assert_eq!(accelerated("noise\nsovia: accelerated 3 of 4 connections\n"), Some(3));
        assert_eq!(accelerated("sovia: accelerated 1\nsovia: accelerated 2\n"), Some(3));
        assert_eq!(accelerated("nothing here"), None);
    }
}
