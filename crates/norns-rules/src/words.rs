//! Properties in simple words, and the CSPM that they stand for.
//!
//! ```text
//! never A then B               no B after an A
//! always A before B            no B before the first A
//! A and B alternate            first A, then B, then A again
//! at most N between A and B    never more than N A's without their B's
//! atomic FUNCTION on VARIABLE  no access of another thread between two of the function's own to the
//!                              variable that could not also have come before or after them
//! ```
//!
//! With `for each #0` at the end, a sentence speaks of every value of that field apart. `--` begins a
//! comment. Each sentence is one assertion of the form `RULE [T= PROGRAM |\ events`: the process RULE can do
//! exactly what the sentence allows. The patterns of `atomic` are the five of Figure 6.18 of Carril (2017),
//! after Vaziri et al. (2006), as an automaton for each thread.

use std::fmt::Write;

use crate::aspect::{Aspect, Field, Order, What, Where};
use crate::property::event_of;

/// What a file in simple words stands for.
pub(crate) struct Rules {
    pub cspm: String,
    /// One for each assertion.
    pub sentences: Vec<String>,
    /// Orders that the sentences need.
    pub orders: Vec<Order>,
}

/// Reads the sentences; an error is the number of its line and what is wrong.
pub(crate) fn parse(text: &str, aspect: &Aspect) -> Result<Rules, (usize, String)> {
    let mut rules = Rules {
        cspm: String::new(),
        sentences: Vec::new(),
        orders: Vec::new(),
    };
    for (i, line) in text.lines().enumerate() {
        let code = line.split_once("--").map_or(line, |(code, _)| code).trim();
        if code.is_empty() {
            continue;
        }
        let number = rules.sentences.len() + 1;
        let words: Vec<&str> = code.split_whitespace().collect();
        rules
            .sentence(number, &words, aspect)
            .map_err(|problem| (i + 1, problem))?;
        rules.sentences.push(words.join(" "));
    }
    if rules.sentences.is_empty() {
        return Err((
            1,
            "there is no rule: neither an `assert` nor a sentence".into(),
        ));
    }
    Ok(rules)
}

impl Rules {
    fn sentence(&mut self, number: usize, words: &[&str], aspect: &Aspect) -> Result<(), String> {
        let (words, each) = match words {
            [front @ .., "for", "each", field] => (front, Some(field_number(field)?)),
            _ => (words, None),
        };
        let orders = &aspect.orders;
        let known = |event: &str| match event_of(orders, event) {
            None => {
                let names: Vec<&str> = aspect.events().into_keys().collect();
                Err(format!(
                    "no order of the aspect file emits `{event}`; there are: {}",
                    names.join(", ")
                ))
            }
            Some(order) if each.is_some_and(|each| each >= order.fields.len()) => Err(format!(
                "`{event}` has no field #{}",
                each.unwrap_or_default()
            )),
            Some(order) => Ok((event.to_string(), order.fields.len())),
        };
        let pair = |a: &str, b: &str| Ok::<_, String>([known(a)?, known(b)?]);
        match *words {
            ["never", a, "then", b] => {
                let body = format!(
                    "RULE{number}(v) = ([] e : {a} @ e -> RULE{number}_A(v)) [] ([] e : diff({b}, {a}) @ e -> RULE{number}(v))\n\
                     RULE{number}_A(v) = [] e : diff({a}, {b}) @ e -> RULE{number}_A(v)",
                    a = format_args!("A{number}(v)"),
                    b = format_args!("B{number}(v)"),
                );
                self.rule(number, &pair(a, b)?, each, "(v)", &body);
            }
            ["always", a, "before", b] => {
                let body = format!(
                    "RULE{number}(v) = [] e : A{number}(v) @ e -> RUN(union(A{number}(v), B{number}(v)))"
                );
                self.rule(number, &pair(a, b)?, each, "(v)", &body);
            }
            [a, "and", b, "alternate"] => {
                let body = format!(
                    "RULE{number}(v) = [] e : A{number}(v) @ e -> ([] e : B{number}(v) @ e -> RULE{number}(v))"
                );
                self.rule(number, &pair(a, b)?, each, "(v)", &body);
            }
            ["at", "most", most, "between", a, "and", b] => {
                let most: u32 = most.parse().map_err(|_| format!("`{most}` is no number"))?;
                let body = format!(
                    "RULE{number}(v, n) = (n < {most} & ([] e : A{number}(v) @ e -> RULE{number}(v, n + 1)))\n  \
                     [] ([] e : B{number}(v) @ e -> RULE{number}(v, if n > 0 then n - 1 else 0))"
                );
                self.rule(number, &pair(a, b)?, each, "(v, 0)", &body);
            }
            ["atomic", function, "on", variable] if each.is_none() => {
                self.atomic(number, function, variable, aspect);
            }
            ["atomic", ..] if each.is_some() => {
                return Err(
                    "`atomic` speaks of one variable: `for each` has no meaning there".into(),
                );
            }
            _ => {
                return Err(format!(
                    "`{}` is no rule; rules are: never A then B, always A before B, A and B alternate, \
                     at most N between A and B, atomic FUNCTION on VARIABLE",
                    words.join(" ")
                ));
            }
        }
        Ok(())
    }

    /// A rule about the events A and B: the sets of its events with the value `v` in the field, or of all
    /// of them, the process, and the assertion.
    fn rule(
        &mut self,
        number: usize,
        events: &[(String, usize); 2],
        each: Option<usize>,
        start: &str,
        body: &str,
    ) {
        let out = &mut self.cspm;
        for ((event, fields), set) in events.iter().zip(["A", "B"]) {
            let names: Vec<String> = (1..=*fields).map(|n| format!("x{n}")).collect();
            let from: Vec<String> = (1..=*fields)
                .map(|n| format!(", x{n} <- {event}_arg{n}"))
                .collect();
            let whole: String = names.iter().map(|name| format!(".{name}")).collect();
            let only = each.map_or(String::new(), |each| format!(", x{} == v", each + 1));
            let _ = writeln!(
                out,
                "{set}{number}(v) = {{ {event}.t{whole} | t <- thread{}{only} }}",
                from.concat()
            );
        }
        let _ = writeln!(out, "{body}");
        let [(a, _), (b, _)] = events;
        let all = match each {
            None => format!("RULE{number}{}", start.replacen('v', "0", 1)),
            Some(each) => {
                let field = each + 1;
                let values = format!("union({a}_arg{field}, {b}_arg{field})");
                format!("(||| v : {values} @ RULE{number}{start})")
            }
        };
        let _ = writeln!(out, "assert {all} [T= PROGRAM |\\ {{|{a}, {b}|}}\n");
    }

    fn atomic(&mut self, number: usize, function: &str, variable: &str, aspect: &Aspect) {
        let clean = |name: &str| -> String {
            let letters = name.chars();
            letters
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .collect()
        };
        let (enter, exit) = (
            format!("enter_{}", clean(function)),
            format!("exit_{}", clean(function)),
        );
        let access = format!("access_{}", clean(variable));
        let mut order = |event: &str, field: Option<&str>, place, what, target: &str| {
            let order = Order {
                event: event.into(),
                fields: field
                    .into_iter()
                    .map(|word| Field::Word(word.into()))
                    .collect(),
                place,
                what,
                target: target.into(),
                line: 0,
            };
            if !self.orders.contains(&order) && !aspect.orders.contains(&order) {
                self.orders.push(order);
            }
        };
        order(&enter, None, Where::Before, What::Body, function);
        order(&exit, None, Where::After, What::Body, function);
        order(
            &access,
            Some("load"),
            Where::Before,
            What::ReadGlobal,
            variable,
        );
        order(
            &access,
            Some("store"),
            Where::Before,
            What::WriteGlobal,
            variable,
        );
        let rule = format!("RULE{number}");
        let state = |name: &str, own: &str, load: &str, store: &str| {
            format!(
                "{rule}_{name}(t) = {enter}.t -> {rule}_IN(t) [] {exit}.t -> {rule}_OUT(t) {own}\n  \
                 [] {access}?o : diff(thread, {{t}})!load -> {rule}_{load}(t)\n  \
                 [] {access}?o : diff(thread, {{t}})!store -> {rule}_{store}(t)\n  \
                 [] {enter}?o : diff(thread, {{t}}) -> {rule}_{name}(t) [] {exit}?o : diff(thread, {{t}}) -> {rule}_{name}(t)\n"
            )
        };
        let own = |load: &str, store: &str| {
            let step = |word: &str, then: &str| match then {
                "" => String::new(),
                then => format!("[] {access}.t.{word} -> {rule}_{then}(t)"),
            };
            format!("{} {}", step("load", load), step("store", store))
        };
        let out = &mut self.cspm;
        // LOAD, STORE: the thread's last access in the body. BETWEEN: another thread has stored since, so
        // that any further access of its own is wrong. READ: another thread has read what it stored, so
        // that a further store is wrong.
        *out += &state("OUT", &own("OUT", "OUT"), "OUT", "OUT");
        *out += &state("IN", &own("LOAD", "STORE"), "IN", "IN");
        *out += &state("LOAD", &own("LOAD", "STORE"), "LOAD", "BETWEEN");
        *out += &state("STORE", &own("LOAD", "STORE"), "READ", "BETWEEN");
        *out += &state("READ", &own("LOAD", ""), "READ", "BETWEEN");
        *out += &state("BETWEEN", "", "BETWEEN", "BETWEEN");
        let events = format!("{{|{enter}, {exit}, {access}|}}");
        let _ = writeln!(
            out,
            "assert ([| {events} |] t : thread @ {rule}_OUT(t)) [T= PROGRAM |\\ {events}\n"
        );
    }
}

/// A sentence that two events break if anything does.
pub(crate) enum Pair<'r> {
    /// `never A then B`
    Never(&'r str, &'r str),
    /// `always A before B`
    Always(&'r str, &'r str),
}

impl Pair<'_> {
    pub fn of(rule: &str) -> Option<Pair<'_>> {
        let words: Vec<&str> = rule.split_whitespace().collect();
        match words[..] {
            ["never", a, "then", b, ..] => Some(Pair::Never(a, b)),
            ["always", a, "before", b, ..] => Some(Pair::Always(a, b)),
            _ => None,
        }
    }
}

/// The field that a sentence speaks of every value of apart.
pub(crate) fn field_of_each(rule: &str) -> Option<usize> {
    rule.rsplit_once("for each #")?.1.parse().ok()
}

fn field_number(word: &str) -> Result<usize, String> {
    let number = word
        .strip_prefix('#')
        .and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("`{word}` is no field: #0 is the first one"))
}
