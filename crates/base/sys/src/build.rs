//! The build id of this code: a number that the linker computes from the content of a library or program.

use core::slice;
use libc::{Elf64_Ehdr, Elf64_Phdr, PT_NOTE};

/// Number of bytes in a note's header: the lengths of name and text, and the kind. Name and text are padded to
/// multiples of four bytes.
const HEAD: usize = 12;
const KIND: u32 = 3;
const NAME: &[u8] = b"GNU\0";

unsafe extern "C" {
    /// The linker's symbol for the beginning of the library or program with this code, in memory.
    #[link_name = "__ehdr_start"]
    static HEADER: Elf64_Ehdr;
}

/// Returns the build id; `None` if the linker made none (`--build-id`).
pub fn number() -> Option<&'static [u8]> {
    // SAFETY: the linker defines the symbol in a readable segment, which stays mapped as long as this code.
    let (header, base) = unsafe { (&HEADER, &raw const HEADER) };
    let base = base.cast::<u8>();
    // SAFETY: the table of segments lies at this offset from the header, in the same segment.
    let segments = unsafe {
        let first = base.add(header.e_phoff as usize).cast::<Elf64_Phdr>();
        slice::from_raw_parts(first, usize::from(header.e_phnum))
    };
    // The header's addresses are relative to the address for which the first segment was linked.
    let from = segments.iter().find(|segment| segment.p_type == libc::PT_LOAD)?.p_vaddr;
    segments.iter().filter(|segment| segment.p_type == PT_NOTE).find_map(|segment| {
        let at = segment.p_vaddr.checked_sub(from)? as usize;
        // SAFETY: the table of segments gives address and length of the notes, which lie in a segment of this
        // library.
        let notes = unsafe { slice::from_raw_parts(base.add(at), segment.p_memsz as usize) };
        among(notes)
    })
}

/// Returns the build id among notes.
fn among(mut notes: &[u8]) -> Option<&[u8]> {
    while notes.len() >= HEAD {
        let word = |at: usize| {
            notes[at..at + 4].try_into().map_or(0, |bytes| u32::from_ne_bytes(bytes) as usize)
        };
        let (name, text, kind) = (word(0), word(4), word(8));
        let text_at = HEAD + name.next_multiple_of(4);
        let found = notes.get(text_at..text_at + text)?;
        if kind == KIND as usize && notes.get(HEAD..HEAD + name) == Some(NAME) {
            return Some(found);
        }
        notes = notes.get(text_at + text.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, text: &[u8]) -> Vec<u8> {
        let mut note: Vec<u8> = [name.len() as u32, text.len() as u32, kind]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        for part in [name, text] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_number_is_found_among_other_notes() {
        let other = note(b"Other\0", KIND, b"abc");
        let number = note(NAME, KIND, &[1, 2, 3, 4, 5]);
        let all = [other.clone(), note(NAME, 1, b"x"), number.clone(), other.clone()].concat();
        assert_eq!(among(&all), Some(&[1, 2, 3, 4, 5][..]));
        assert_eq!((among(&other), among(&[])), (None, None));
        // A note that is cut off, and a note that claims to be longer than the bytes there.
        assert_eq!(among(&number[..number.len() - 4]), None);
        assert_eq!(among(&[0xff; 40]), None);
    }

    #[test]
    fn this_programs_own_notes_can_be_read() {
        assert!(number().is_none_or(|number| number.len() >= 8), "{:?}", number());
    }
}
