//! Checks the assertions of a script: `cargo run --example assertions -- script.csp`.

use norns_csp::check::Options;
use norns_csp::script::{Answer, Script, no_includes};

fn main() {
    let file = std::env::args().nth(1).expect("usage: assertions FILE");
    let text = std::fs::read_to_string(&file).expect("the script is readable");
    let mut script = match Script::load(&file, &text, &mut no_includes) {
        Ok(script) => script,
        Err(error) => return print!("{}", error.render()),
    };
    for index in 0..script.assertions.len() {
        let answer = script.check(index, &Options::default(), &mut |_| {});
        let verdict = match &answer {
            Ok((Answer::Holds, _)) => "holds".to_owned(),
            Ok((Answer::Fails(_), _)) => "fails".to_owned(),
            Ok((Answer::Undecided(reason), _)) => reason.clone(),
            Err(error) => error.render(),
        };
        println!("{}: {verdict}", script.assertions[index].text);
    }
}
