//! Large static tables that are mostly empty.

/// Declares tables that most programs use little. The linker places them beside each other, apart from small
/// statics.
///
/// After a fork, the kernel copies each page that either process writes, and both processes write many small
/// statics. A release build is one object. Without the tables between them, its small statics lie on two pages. A
/// table begins as zeros, like all of `.bss`.
#[macro_export]
macro_rules! tables {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;)+) => {
        $(
            $(#[$attribute])*
            // SAFETY: the section is part of `.bss`, in which the linker would place the static anyway.
            #[unsafe(link_section = ".bss.tables")]
            $visibility static $name: $type = $value;
        )+
    };
}
