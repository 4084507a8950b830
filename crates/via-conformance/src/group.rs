//! Macros by which a module lists its cases.

/// Lists the cases of a module. `both` is a module with the roles `server` and `client`. `alone` is a function for the
/// client without a server. The brackets have the case's needs.
macro_rules! group {
    ($group:literal: $($how:ident $name:ident $([$($need:ident),+])?),+ $(,)?) => {
        /// Returns the cases of this module.
        pub(super) fn cases<N: via::Nic>() -> Vec<crate::Case<N>> {
            vec![$(case!($group $how $name [$($($need),+)?])),+]
        }
    };
}

macro_rules! case {
    ($group:literal both $name:ident [$($need:ident),*]) => {
        case!($group $name [$($need),*] $name::server::<N>, $name::client::<N>)
    };
    ($group:literal alone $name:ident [$($need:ident),*]) => {
        case!($group $name [$($need),*] crate::no_role::<N>, $name::<N>)
    };
    ($group:literal $name:ident [$($need:ident),*] $server:expr, $client:expr) => {
        crate::Case {
            group: $group,
            name: stringify!($name),
            needs: &[$(crate::Need::$need),*],
            server: $server,
            client: $client,
        }
    };
}
