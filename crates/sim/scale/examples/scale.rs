//! Plays the catalogue's scenarios and prints what came of them: `small`, `large`, `vis`, or those whose names contain a
//! word.

use sovia_scale::{heading, large, line, run, run_vis, small, vi_heading, vi_line, vis};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |set: &str, name: &str| {
        words.is_empty() || words.iter().any(|word| word == set || name.contains(word.as_str()))
    };
    for (set, scenarios) in [("small", small()), ("large", large())] {
        let scenarios: Vec<_> = scenarios.iter().filter(|it| chosen(set, &it.name)).collect();
        scenarios.first().inspect(|_| println!("{}", heading()));
        scenarios.iter().for_each(|scenario| println!("{}", line(scenario, &run(scenario))));
    }
    let scenarios = vis();
    let scenarios: Vec<_> = scenarios.iter().filter(|it| chosen("vis", &it.name)).collect();
    scenarios.first().inspect(|_| println!("{}", vi_heading()));
    scenarios.iter().for_each(|scenario| println!("{}", vi_line(scenario, &run_vis(scenario))));
}
