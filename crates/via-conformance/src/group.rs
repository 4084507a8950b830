//! How a module lists its cases.

/// The cases of a module: `both` is a module with the roles `server` and `client`, `alone` a
/// function for the client without a server; in brackets what the case needs.
macro_rules! group {
    ($group:literal: $($how:ident $name:ident $([$($need:ident),+])?),+ $(,)?) => {
        /// The cases of this module.
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
