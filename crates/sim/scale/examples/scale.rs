//! Runs scenarios of the catalogue and prints their outcomes: `small`, `large`, `vis`, or those whose names contain a
//! word. The variable SEED sets another seed.

use sovia_scale::{Scenario, heading, large, line, run, run_vis, small, vi_heading, vi_line, vis};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |set: &str, name: &str| {
        words.is_empty() || words.iter().any(|word| word == set || name.contains(word.as_str()))
    };
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let all = |set: &str, scenarios: Vec<Scenario>| -> Vec<Scenario> {
        let scenarios = scenarios.into_iter().filter(|it| chosen(set, &it.name));
        scenarios.map(|it| Scenario { seed: seed.unwrap_or(it.seed), ..it }).collect()
    };
    for (set, scenarios) in [("small", small()), ("large", large())] {
        let scenarios = all(set, scenarios);
        scenarios.first().inspect(|_| println!("{}", heading()));
        scenarios.iter().for_each(|scenario| println!("{}", line(scenario, &run(scenario))));
    }
    let scenarios = all("vis", vis());
    scenarios.first().inspect(|_| println!("{}", vi_heading()));
    scenarios.iter().for_each(|scenario| println!("{}", vi_line(scenario, &run_vis(scenario))));
}
