//! Compiles the same test cases with std's types and with Sovia's, which must behave alike.

mod of_std {
    use std::net::{TcpListener, TcpStream};
    include!("cases.rs");
}

mod of_sovia {
    use sovia::{TcpListener, TcpStream};
    include!("cases.rs");

    #[test]
    fn the_others_of_these_run_over_a_vi() {
        let (one, other) = warm();
        assert!(one.is_accelerated() && other.is_accelerated());
    }
}
