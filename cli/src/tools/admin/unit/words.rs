//! Splits a setting into words, with systemd's quoting.

/// Splits text at white space outside quotation marks. A backslash escapes the next character.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut mark = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, mark) {
            ('\\', _) => word.get_or_insert_default().extend(letters.next()),
            (letter, Some(open)) if letter == open => mark = None,
            (letter, Some(_)) => word.get_or_insert_default().push(letter),
            ('"' | '\'', None) => {
                mark = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, None) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Quotes a word so that systemd reads exactly this word.
pub(crate) fn quoted(word: &str) -> String {
    quoted_with_specifiers(&word.replace('%', "%%"))
}

/// Quotes a word so that systemd reads this word and expands its specifiers.
pub(crate) fn quoted_with_specifiers(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    if escaped.contains([' ', '\t', ';', '\\', '\'']) { format!("\"{escaped}\"") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_outside_quotation_marks() {
        assert_eq!(words("A=1  \"B=2 3\" 'C=\"' D=\\ e"), ["A=1", "B=2 3", "C=\"", "D= e"]);
        assert_eq!(words("\"\" "), [""]);
    }

    #[test]
    fn a_quoted_word_is_one_word_again() {
        for word in ["plain", "only:port=1;trust:any", "a b\"c\\d", "tab\tin"] {
            assert_eq!(words(&quoted(word)), [word]);
        }
        assert_eq!(quoted("50%"), "50%%");
    }
}
