//! Prints the type and the definition of what stands at a position of a script:
//! `cargo run --example hover -- script.csp LINE COLUMN`.

use norns_csp::analysis::Analysis;
use norns_csp::script::no_includes;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, line, column] = &arguments[..] else {
        eprintln!("usage: hover FILE LINE COLUMN");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(file).expect("the script is readable");
    let number = |text: &String| text.parse().expect("lines and columns are numbers");
    match Analysis::new(file, &text, &mut no_includes) {
        Err(error) => print!("{}", error.render()),
        Ok(mut analysis) => {
            let offset = analysis.sources.offset(file, number(line), number(column));
            let Some(hover) = offset.and_then(|offset| analysis.at(offset)) else {
                return println!("nothing stands there");
            };
            println!("type: {}", hover.ty.as_deref().unwrap_or("unknown"));
            if let Some(span) = hover.definition {
                let place = analysis.sources.position(span.low);
                println!("defined at line {}, column {}", place.line, place.column);
            }
        }
    }
}
