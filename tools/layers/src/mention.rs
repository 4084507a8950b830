//! Which files of a crate mention a name.

use crate::source::{is_ident, is_of_tests, is_test_only, item_length};
use proc_macro2::{TokenStream, TokenTree};

/// The lines on which a file names it, outside comments, strings and what is compiled for tests only.
///
/// # Panics
/// If the text is no Rust.
pub(crate) fn lines(file: &str, text: &str, name: &str) -> Vec<usize> {
    let tokens = text.parse().unwrap_or_else(|e| panic!("{file} cannot be read: {e}"));
    let mut found = Vec::new();
    scan(tokens, name, &mut found);
    found.dedup();
    found
}

fn scan(tokens: TokenStream, name: &str, found: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut i = 0;
    while i < tokens.len() {
        if is_test_only(&tokens[i..]) {
            i += item_length(&tokens[i..]);
            continue;
        }
        if is_ident(&tokens[i], name) {
            found.push(tokens[i].span().start().line);
        }
        if let TokenTree::Group(group) = &tokens[i] {
            scan(group.stream(), name, found);
        }
        i += 1;
    }
}

/// Whether a file, by its name relative to the sources, is that place: the file itself, or one of a module at the
/// root.
pub(crate) fn is_in(file: &str, place: &str) -> bool {
    let rest = file.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

/// Returns the faults in the mentions of `name`: mentions outside of `places`, and places without a
/// mention.
pub(crate) fn faults<'f>(
    files: impl IntoIterator<Item = (&'f str, &'f str)>,
    name: &str,
    places: &[&str],
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut used = vec![false; places.len()];
    for (file, text) in files.into_iter().filter(|(file, _)| !is_of_tests(file)) {
        let lines = lines(file, text, name);
        match places.iter().position(|place| is_in(file, place)) {
            Some(place) => used[place] |= !lines.is_empty(),
            None => faults.extend(lines.iter().map(|line| {
                format!("{file}:{line}: mentions {name}, which is for {} alone", places.join(", "))
            })),
        }
    }
    let unused = places.iter().zip(&used).filter(|(_, used)| !**used);
    faults.extend(unused.map(|(place, _)| format!("{place} may mention {name}, and does not")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_with(text: &str) -> Vec<String> {
        let files = [
            ("low/mod.rs", "use carrier::Ring;"),
            ("low/part.rs", "fn f(x: &carrier::Ring) {}"),
            ("lower.rs", text),
            ("high/body.rs", "use carrier::End;"),
            ("lower/tests.rs", "use carrier::End;"),
        ];
        faults(files, "carrier", &["low", "high/body.rs"])
    }

    #[test]
    fn mentions_of_a_name_outside_its_places_are_found_in_every_form() {
        for text in [
            "use carrier::Ring;",
            "use {std::fmt, carrier as c};",
            "fn f() { let x = [::carrier::LEN; 2]; }",
            "macro_rules! m { () => { carrier::f() }; }",
            "#[cfg(test)] mod tests { use carrier::Ring; } pub use carrier::End;",
        ] {
            let found = faults_with(text);
            assert_eq!(
                found,
                ["lower.rs:1: mentions carrier, which is for low, high/body.rs alone"],
                "{text}"
            );
        }
    }

    #[test]
    fn comments_strings_tests_and_longer_names_mention_nothing() {
        for text in [
            "//! See [`carrier::Ring`].\n/* carrier */ fn f() {}",
            "fn f() -> &'static str { \"carrier\" }",
            "use carriers::Ring; fn carrier_of() {}",
            "#[cfg(test)]\nmod tests { use carrier::Ring; }",
        ] {
            assert_eq!(faults_with(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn places_without_a_mention_are_found() {
        let files = [("low.rs", "use carrier::Ring;"), ("high/mod.rs", "")];
        assert_eq!(
            faults(files, "carrier", &["low", "high", "gone"]),
            ["high may mention carrier, and does not", "gone may mention carrier, and does not"]
        );
    }
}
