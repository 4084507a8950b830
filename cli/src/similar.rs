//! Suggestions for misspelt words.

/// Returns the candidate that a misspelt word resembles most, if any does.
pub fn similar<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |candidate: &&str| strsim::damerau_levenshtein(word, candidate);
    let most = (word.chars().count() / 3).max(1);
    let near = candidates.into_iter().filter(|candidate| (1..=most).contains(&distance(candidate)));
    near.min_by_key(distance)
}

/// Returns a suggestion to add to an error, or nothing.
pub fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    similar(word, candidates).map(|one| format!(" (did you mean `{one}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_one_slip_is_found_and_another_word_is_not() {
        let words = ["port", "addr", "program", "user"];
        for (word, expected) in [
            ("usr", Some("user")),
            ("prot", Some("port")),
            ("prograam", Some("program")),
            ("adr", Some("addr")),
            ("host", None),
            ("end", None),
            ("", None),
        ] {
            assert_eq!(similar(word, words), expected, "{word}");
        }
    }
}
