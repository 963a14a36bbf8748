//! What the library tells an editor about a script: types, definitions and uses by position.

use norns_csp::analysis::{Analysis, SymbolKind};
use norns_csp::script::no_includes;
use norns_csp::syntax::source::Span;

const SCRIPT: &str = "\
channel out : {0, 1}
double(x) = x + x
pair(x) = (x, x)
P = out!double(0) -> P
Q = let local = pair(true) within if member(local, {}) then P else STOP
module M(n)
exports
  sum(m) = n + m
endmodule
instance I = M(1)
print I::sum(2)
";

fn analysis() -> Analysis {
    Analysis::new("script.csp", SCRIPT, &mut no_includes)
        .unwrap_or_else(|error| panic!("{}", error.render()))
}

/// The offset of the n-th occurrence of a word.
fn offset(word: &str, occurrence: usize) -> u32 {
    let (at, _) = SCRIPT
        .match_indices(word)
        .nth(occurrence)
        .expect("the word occurs so often");
    at as u32
}

#[track_caller]
fn check_type(word: &str, occurrence: usize, expected: &str) {
    let hover = analysis().at(offset(word, occurrence));
    assert_eq!(hover.and_then(|hover| hover.ty).as_deref(), Some(expected));
}

#[test]
fn expressions_and_names_have_types() {
    check_type("double", 0, "(Int) -> Int");
    check_type("double", 1, "(Int) -> Int");
    check_type("pair", 0, "(a) -> (a, a)");
    // At its use the function has the type that it is used with.
    check_type("pair", 1, "(Bool) -> (Bool, Bool)");
    check_type("out", 1, "Int=>Event");
    check_type("true", 0, "Bool");
    check_type("local", 0, "(Bool, Bool)");
    check_type("P", 1, "Proc");
    check_type("!double", 0, "Proc");
}

#[test]
fn a_name_leads_to_its_definition() {
    let mut analysis = analysis();
    let mut check = |word: &str, occurrence: usize, defined: Option<u32>| {
        let found = analysis
            .at(offset(word, occurrence))
            .and_then(|hover| hover.definition);
        assert_eq!(found.map(|span| span.low), defined, "{word}");
    };
    check("double", 1, Some(offset("double", 0)));
    check("local", 1, Some(offset("local", 0)));
    check("I::sum", 0, Some(offset("sum", 0)));
    check("STOP", 0, None);
}

#[test]
fn a_definition_knows_its_uses() {
    let analysis = analysis();
    let check = |word: &str, occurrence: usize, uses: &[u32]| {
        let found: Vec<u32> = analysis
            .references(offset(word, occurrence))
            .iter()
            .map(|span| span.low)
            .collect();
        assert_eq!(found, uses, "{word}");
    };
    check("double", 1, &[offset("double", 0), offset("double", 1)]);
    // Every instance of a module stands where the module does.
    check("sum", 0, &[offset("sum", 0), offset("I::sum", 0)]);
    check("print", 0, &[]);
}

#[test]
fn symbols_are_listed_with_their_kinds() {
    let listed: Vec<(String, SymbolKind)> = analysis()
        .symbols()
        .into_iter()
        .map(|symbol| (symbol.name, symbol.kind))
        .collect();
    let expected = [
        ("out", SymbolKind::Channel),
        ("double", SymbolKind::Function),
        ("pair", SymbolKind::Function),
        ("P", SymbolKind::Value),
        ("Q", SymbolKind::Value),
        ("I::sum", SymbolKind::Function),
    ];
    for (name, kind) in expected {
        assert!(
            listed.contains(&(name.to_owned(), kind)),
            "{name}: {listed:?}"
        );
    }
}

#[test]
fn lines_and_columns_are_offsets_and_back() {
    let analysis = analysis();
    let at = offset("double", 1);
    let position = analysis.sources.position(at);
    assert_eq!((position.line, position.column), (4, 9));
    assert_eq!(analysis.sources.offset("script.csp", 4, 9), Some(at));
    assert_eq!(analysis.sources.offset("script.csp", 99, 1), None);
    assert_eq!(analysis.sources.text(Span::new(at, at + 6)), "double");
}
