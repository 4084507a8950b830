//! Text of errors for users.

/// Removes the numbers that Rust adds to the system's error texts, such as " (os error 2)".
pub fn without_numbers(text: &str) -> String {
    const BEGIN: &str = " (os error ";
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once(BEGIN) {
        kept.push_str(before);
        match after.split_once(')') {
            Some((number, behind)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                rest = behind;
            }
            _ => {
                kept.push_str(BEGIN);
                rest = after;
            }
        }
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn numbers_of_system_errors_are_removed_and_other_text_stays() {
        for (text, expected) in [
            (
                "cannot read a: No such file or directory (os error 2)",
                "cannot read a: No such file or directory",
            ),
            ("a (os error 1); b (os error 13)!", "a; b!"),
            ("a (os error x) b (os error 7)", "a (os error x) b"),
            ("a (os error ", "a (os error "),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_numbers(text), expected);
        }
    }
}
