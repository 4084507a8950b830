//! Shows the difference between two transcripts.

/// Returns the lines that only the expected (`-`) or only the seen (`+`) transcript has, with a few
/// lines around them. Returns `None` if the transcripts are equal.
pub fn difference(expected: &str, seen: &str) -> Option<String> {
    if expected == seen {
        return None;
    }
    let expected: Vec<&str> = expected.lines().collect();
    let seen: Vec<&str> = seen.lines().collect();
    let marked = mark(&expected, &seen);
    const CONTEXT: usize = 3;
    let mut text = String::new();
    let mut gap = false;
    for (index, (mark, line)) in marked.iter().enumerate() {
        let from = index.saturating_sub(CONTEXT);
        let to = (index + CONTEXT + 1).min(marked.len());
        if marked[from..to].iter().any(|(mark, _)| *mark != ' ') {
            text.push_str(&format!("    {mark} {line}\n"));
            gap = false;
        } else if !gap {
            text.push_str("      …\n");
            gap = true;
        }
    }
    Some(text)
}

/// Both texts as one: `-` only expected, `+` only seen, ` ` in both.
fn mark<'a>(expected: &[&'a str], seen: &[&'a str]) -> Vec<(char, &'a str)> {
    // `common[i][j]` is the longest common subsequence of the lines from `i` and from `j` on.
    let mut common = vec![vec![0_u32; seen.len() + 1]; expected.len() + 1];
    for i in (0..expected.len()).rev() {
        for j in (0..seen.len()).rev() {
            common[i][j] = if expected[i] == seen[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < expected.len() || j < seen.len() {
        if i < expected.len() && j < seen.len() && expected[i] == seen[j] {
            lines.push((' ', expected[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == seen.len() || (i < expected.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', expected[i]));
            i += 1;
        } else {
            lines.push(('+', seen[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn equal_transcripts_have_no_difference() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn changed_line_is_shown_with_its_neighbours() {
        let text = difference("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\nfive\n6\n").expect("they differ");
        assert_eq!(text, "      …\n      2\n      3\n      4\n    - 5\n    + five\n      6\n");
    }

    #[test]
    fn a_transcript_that_stops_early_lacks_its_last_lines() {
        let text = difference("1\n2\n", "1\n").expect("they differ");
        assert_eq!(text, "      1\n    - 2\n");
    }
}
