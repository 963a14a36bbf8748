//! A stack in lines that a person can read in a terminal.
//!
//! What happens inside the headers of the system is folded: of `std::thread` and `std::future` a
//! dozen frames, of which only the innermost tells something. Long names of C++ lose their
//! template arguments, then their parameters. The page and the JSON have everything.

use crate::describe::{base_name, is_system_file};
use crate::sketch::Frame;

/// A longer name is shortened.
const LONGEST_NAME: usize = 80;

/// From the innermost frame on, each with its number.
pub fn lines(stack: &[Frame]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < stack.len() {
        let rest = &stack[at..];
        let hidden = rest.iter().take_while(|frame| is_hidden(frame)).count();
        if at == 0 || hidden < 2 {
            let frame = &stack[at];
            let place = format!("{}:{}", base_name(&frame.file), frame.line);
            lines.push(format!("#{at} {} {place}", short_name(&frame.function)));
            at += 1;
        } else {
            lines.push(format!("⋮  {hidden} frames of the system's headers"));
            at += hidden;
        }
    }
    lines
}

fn is_hidden(frame: &Frame) -> bool {
    is_system_file(&frame.file) || frame.file.contains("/sysdeps/")
}

fn short_name(name: &str) -> String {
    let is_long = |name: &str| name.chars().count() > LONGEST_NAME;
    if !is_long(name) {
        return name.to_string();
    }
    let mut short = without(name, '<', '>');
    if is_long(&short) {
        short = without(&short, '(', ')');
    }
    if is_long(&short) {
        short = short.chars().take(LONGEST_NAME - 1).collect();
        short.push('…');
    }
    short
}

/// The name with `…` for what is between such brackets. Operators are no brackets.
fn without(name: &str, open: char, close: char) -> String {
    let mut short = String::new();
    let mut depth = 0;
    let mut before = ' ';
    for c in name.chars() {
        let is_operator = short.ends_with("operator")
            || short.ends_with("operator<")
            || c == '>' && before == '-';
        before = c;
        if c == close && depth > 0 && !is_operator {
            depth -= 1;
        }
        if depth == 0 {
            short.push(c);
        }
        if c == open && !is_operator {
            depth += 1;
            if depth == 1 {
                short.push('…');
            }
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str) -> Frame {
        Frame {
            function: function.into(),
            file: file.into(),
            line: 7,
        }
    }

    #[test]
    fn frames_of_the_system_are_folded_but_the_innermost() {
        let header = "/usr/include/c++/12/thread";
        let stack = [
            frame("swap", "/usr/include/c++/12/move.h"),
            frame("one", header),
            frame("two", header),
            frame("work", "/home/me/a.cpp"),
            frame("invoke", header),
            frame("main", "/home/me/a.cpp"),
            frame("start", header),
            frame("run", header),
        ];
        assert_eq!(
            lines(&stack),
            [
                "#0 swap move.h:7",
                "⋮  2 frames of the system's headers",
                "#3 work a.cpp:7",
                "#4 invoke thread:7",
                "#5 main a.cpp:7",
                "⋮  2 frames of the system's headers",
            ]
        );
    }

    #[test]
    fn long_names_lose_what_is_in_brackets() {
        let long = "a".repeat(60);
        let check = |name: &str, expected: &str| assert_eq!(short_name(name), expected);
        check("f<int>(int)", "f<int>(int)");
        check(&format!("f<{long}, g<{long}>>(int)"), "f<…>(int)");
        check(&format!("f<{long}>::g({long}, {long})"), "f<…>::g(…)");
        check(
            &format!("operator<< <{long}>(int, std::set<{long}>)"),
            "operator<< <…>(int, std::set<…>)",
        );
        check(
            &format!("p<{long}>::operator->() const<{long}>"),
            "p<…>::operator->() const<…>",
        );
    }
}
