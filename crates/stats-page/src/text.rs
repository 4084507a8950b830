//! Program names that are safe to print.

/// Returns a name that is safe to print on a terminal. Escapes characters that move the cursor, change colours or
/// change the order of letters. Also escapes bytes that are not valid UTF-8.
pub fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_plain(c) {
                out.push(c);
            } else {
                out.extend(c.escape_unicode());
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Returns true if a character is visible and does not affect other characters.
fn is_plain(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    !c.is_control() && !invisible
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn names_stay_and_escapes_show() {
        assert_eq!(shown(b"redis-server"), "redis-server");
        assert_eq!(shown("gâteau 日本".as_bytes()), "gâteau 日本");
        assert_eq!(shown(b"\x1b[2J\nx"), "\\u{1b}[2J\\u{a}x");
        assert_eq!(shown("a\u{202e}b\u{9b}".as_bytes()), "a\\u{202e}b\\u{9b}");
        assert_eq!(shown(b"\xff\x80z"), "\\xff\\x80z");
    }
}
