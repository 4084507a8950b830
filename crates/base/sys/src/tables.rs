//! Statics that are large and mostly empty.

/// Declares tables that most programs use little: beside each other, apart from the small statics.
///
/// A fork copies each page that either process writes later, and both write many small statics. In a release build, which
/// is one object, these lie on two pages without the tables between them. A table is zero at first, as all of `.bss`.
#[macro_export]
macro_rules! tables {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)+) => {
        $(
            $(#[$attribute])*
            // SAFETY: the section is part of `.bss`, where it would be as well.
            #[unsafe(link_section = ".bss.tables")]
            $visibility static $name: $type = $value;
        )+
    };
}
