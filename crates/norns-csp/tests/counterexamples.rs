//! What counterexamples tell: hidden events, the inside of components, several of them, folding, the
//! page.

use norns_csp::check::Options;
use norns_csp::counterexample::{Counterexample, Section, page};
use norns_csp::event::Events;
use norns_csp::script::{Answer, Script, no_includes};

/// The counterexamples of the first assertion of a script, up to `count`.
fn counterexamples(text: &str, count: usize) -> (Vec<Counterexample>, Events) {
    let mut script = Script::load("script", text, &mut no_includes).expect("well formed");
    let options = Options {
        counterexamples: count,
        threads: 1,
        ..Options::default()
    };
    let (answer, more, _) = script
        .check_several(0, &options, &mut |_| {})
        .expect("it can be checked");
    let Answer::Fails(Some(first)) = answer else {
        panic!("{answer:?}")
    };
    let mut all = vec![*first];
    all.extend(more);
    (all, script.processes.events.clone())
}

/// What happened inside at each step: "process event", by step.
fn inside(text: &str) -> Vec<Vec<String>> {
    let (all, events) = counterexamples(text, 1);
    let name = |inside: &norns_csp::counterexample::Inside| {
        let process = inside.process.as_deref().unwrap_or("-");
        format!("{process} {}", events.name(inside.event))
    };
    let steps = all[0].steps.iter();
    steps
        .map(|step| step.inside.iter().map(name).collect())
        .collect()
}

#[test]
fn a_hidden_event_has_its_name() {
    let found = inside(
        "channel a, b, h
         P = a -> h -> b -> P
         assert a -> STOP [T= P \\ {h}
        ",
    );
    assert_eq!(found, [vec![], vec!["P h".to_owned()], vec![]]);
}

#[test]
fn a_compressed_component_is_opened() {
    let found = inside(
        "transparent normal
         channel a, b, h
         Left = a -> h -> STOP
         Right = h -> b -> STOP
         Both = normal((Left [|{h}|] Right) \\ {h})
         assert a -> STOP [T= Both
        ",
    );
    let last = found.last().expect("two steps");
    assert_eq!(last[..], ["Left h", "Right h", "Right b"], "{found:?}");
}

#[test]
fn a_deep_violation_is_found() {
    // Breadth first, two million states come before the last event.
    let (all, events) = counterexamples(
        "channel e : {0..20}
         channel done
         P(i) = e.i -> done -> STOP
         assert RUN({| e |}) [T= || i : {0..20} @ [{e.i, done}] P(i)
        ",
        1,
    );
    let trace = all[0].trace();
    assert_eq!(trace.len(), 22);
    assert_eq!(
        trace.last().map(|&event| events.name(event)),
        Some("done".into())
    );
    assert!(!all[0].shortest, "it was not found breadth first");
}

#[test]
fn different_counterexamples_are_shown() {
    let text = "channel a, b, c, d
        assert RUN({a}) [T= a -> (b -> STOP [] c -> STOP [] d -> STOP)
        ";
    let (all, events) = counterexamples(text, 10);
    let traces: Vec<Vec<String>> = all
        .iter()
        .map(|one| {
            one.trace()
                .iter()
                .map(|&e| events.name(e).into_owned())
                .collect()
        })
        .collect();
    assert_eq!(traces, [["a", "b"], ["a", "c"], ["a", "d"]]);
    let (all, _) = counterexamples(
        "channel a, b, c
         assert RUN({a}) [T= a -> b -> STOP |~| a -> a -> c -> STOP
        ",
        10,
    );
    assert_eq!(all.len(), 2);
    let (all, _) = counterexamples(
        "channel a, b, c
         assert RUN({a}) [T= a -> b -> STOP |~| a -> a -> c -> STOP
        ",
        1,
    );
    assert_eq!(all.len(), 1);
}

const LONG: &str = "channel a, b
    P(n) = if n == 40 then b -> STOP else a -> P(n+1)
    assert RUN({a}) [T= P(0)
    ";

#[test]
fn what_is_repeated_is_folded() {
    let (all, events) = counterexamples(LONG, 1);
    assert_eq!(all[0].trace().len(), 41);
    let text = all[0].text(&events);
    assert!(text.starts_with("trace: <(a) × 40, b>\n"), "{text}");
}

#[test]
fn the_specification_side_is_told() {
    let (all, events) = counterexamples(LONG, 1);
    assert_eq!(all[0].allowed.len(), 41);
    let json = all[0].json(&events);
    assert_eq!(json["specification"][0], serde_json::json!(["a"]));
}

#[test]
fn the_page_is_self_contained_and_marks_the_event() {
    let (all, events) = counterexamples(LONG, 1);
    let section = Section {
        line: 3,
        text: "assert A <T= B & C",
        verdict: "fails",
        note: "",
        counterexamples: all.iter().collect(),
    };
    let html = page("a <script>", &[section], &events);
    assert!(html.contains("a &lt;script&gt;") && !html.contains("<script"));
    assert!(html.contains("assert A &lt;T= B &amp; C"));
    assert!(!html.contains("http:") && !html.contains("https:"));
    let offending = html
        .split("<tr class=\"bug\">")
        .nth(1)
        .expect("a marked row");
    assert!(
        offending.starts_with("<td class=\"n\">41</td><td>b</td>"),
        "{offending}"
    );
    assert_eq!(html.matches("<tr class=\"bug\">").count(), 1);
}

#[test]
fn a_component_without_a_name_shows_its_operator() {
    let text = "external trace_watchdog
        channel a, b, bark
        assert STOP [T= (RUN({a, b}) [|{a, b}|] trace_watchdog(RUN({a}), {a, b}, bark)) \\ {a, b}";
    let (found, _) = counterexamples(text, 1);
    assert_eq!(found[0].components, ["RUN", "trace_watchdog(RUN, …)"]);
}
