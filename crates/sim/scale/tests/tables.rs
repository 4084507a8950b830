//! Compares the outcomes of the catalogue's scenarios with the stored `tables`. A change of the protocol shows there.

use crate::common::compare;
use sovia_scale::{Scenario, heading, large, line, run, run_vis, small, vi_heading, vi_line, vis};

fn table(heading: String, scenarios: &[Scenario], line: impl Fn(&Scenario) -> String) -> String {
    let mut text = heading;
    for scenario in scenarios {
        text.push('\n');
        text.push_str(&line(scenario));
    }
    text.push('\n');
    text
}

#[test]
fn streams_at_small_scale_do_as_the_table_says() {
    compare("small.txt", &table(heading(), &small(), |scenario| line(scenario, &run(scenario))));
}

#[test]
fn vis_do_as_the_table_says() {
    let line = |scenario: &Scenario| vi_line(scenario, &run_vis(scenario));
    compare("vis.txt", &table(vi_heading(), &vis(), line));
}

#[test]
#[ignore = "takes a minute or two"]
fn streams_at_large_scale_do_as_the_table_says() {
    compare("large.txt", &table(heading(), &large(), |scenario| line(scenario, &run(scenario))));
}
