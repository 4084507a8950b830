//! New connections from their first byte on: effects of the switch on TCP's acknowledgements.

use sovia_tests::{Scenario, skipped};

macro_rules! fresh {
    ($($case:ident),+ $(,)?) => {
        $(
            #[test]
            fn $case() {
                if !skipped(stringify!($case), &["python3"]) {
                    Scenario::python("fresh", stringify!($case)).run();
                }
            }
        )+
    };
}

fresh!(
    an_answer_acknowledges_without_nodelay,
    an_answer_acknowledges_with_nodelay_at_the_client,
    an_answer_acknowledges_with_nodelay_at_the_server,
    an_answer_acknowledges_with_nodelay_at_both,
);
