//! The front end on generated input: printed trees parse to the same tree, broken scripts are
//! refused without a panic, and long chains need no deep recursion.

use norns_csp::check::Options;
use norns_csp::script::{Script, no_includes, on_large_stack, parse};
use norns_csp::syntax::ast::*;
use norns_csp::syntax::print;
use norns_csp::syntax::source::Span;
use norns_csp::{resolve, types};
use norns_random::Random;

/// Builds random trees that a script could have, typed or not.
struct Builder {
    ast: Ast,
    random: Random,
}

impl Builder {
    fn name(&mut self) -> Symbol {
        const NAMES: &[&str] = &["x", "P", "foo", "c'", "M::y", "a_1"];
        let name = NAMES[self.random.below(NAMES.len())];
        self.ast.names.intern(name)
    }

    fn add(&mut self, expr: Expr) -> ExprId {
        self.ast.add_expr(expr, Span::default())
    }

    fn exprs(&mut self, depth: u32, least: usize) -> Exprs {
        let count = least + self.random.below(3);
        (0..count).map(|_| self.expr(depth)).collect()
    }

    fn pairs(&mut self, depth: u32) -> Box<[(ExprId, ExprId)]> {
        let count = 1 + self.random.below(2);
        (0..count)
            .map(|_| (self.expr(depth), self.expr(depth)))
            .collect()
    }

    fn stmts(&mut self, depth: u32, least: usize) -> Stmts {
        let count = least + self.random.below(2);
        (0..count)
            .map(|_| match self.random.below(3) {
                0 => Stmt::Condition(self.expr(depth)),
                _ => Stmt::Generator(self.pat(depth), self.expr(depth)),
            })
            .collect()
    }

    fn pat(&mut self, depth: u32) -> PatId {
        let depth = depth.saturating_sub(1);
        let kinds = if depth == 0 { 5 } else { 11 };
        let pat = match self.random.below(kinds) {
            0 => Pat::Var(self.name()),
            1 => Pat::Wildcard,
            2 => Pat::Int(self.random.below(20) as i64 - 10),
            3 => Pat::Bool(true),
            4 => Pat::Char('q'),
            5 => Pat::Str("a\"b".into()),
            6 => {
                let count = 2 + self.random.below(2);
                Pat::Tuple((0..count).map(|_| self.pat(depth)).collect())
            }
            7 => {
                // A dot in a dot would dissolve.
                let count = 2 + self.random.below(2);
                Pat::Dot((0..count).map(|_| self.pat(0)).collect())
            }
            8 => Pat::Seq((0..self.random.below(3)).map(|_| self.pat(depth)).collect()),
            9 => Pat::Concat(self.pat(depth), self.pat(depth)),
            _ => Pat::Both(self.pat(depth), self.pat(depth)),
        };
        self.ast.add_pat(pat, Span::default())
    }

    /// An expression that is not a dot.
    fn undotted(&mut self, depth: u32) -> ExprId {
        loop {
            let id = self.expr(depth);
            if !matches!(self.ast.expr(id), Expr::Dot(_)) {
                return id;
            }
        }
    }

    fn decls(&mut self, depth: u32) -> Box<[DeclId]> {
        let count = 1 + self.random.below(2);
        (0..count)
            .map(|index| {
                let name = self.ast.names.intern(&format!("local{index}"));
                let body = self.expr(depth);
                let decl = match self.random.below(2) {
                    0 => {
                        let pat = self.ast.add_pat(Pat::Var(name), Span::default());
                        Decl::Pattern(pat, body)
                    }
                    _ => Decl::Function {
                        name,
                        name_span: Span::default(),
                        clauses: [Clause {
                            groups: [[self.pat(depth)].into()].into(),
                            body,
                        }]
                        .into(),
                    },
                };
                self.ast.add_decl(decl, Span::default())
            })
            .collect()
    }

    fn expr(&mut self, depth: u32) -> ExprId {
        if depth == 0 {
            let expr = match self.random.below(6) {
                0 => Expr::Int(self.random.below(20) as i64 - 10),
                1 => Expr::Bool(self.random.below(2) == 0),
                2 => Expr::Char('\''),
                3 => Expr::Str("te\\xt".into()),
                4 => Expr::Items(Bracket::Seq, Exprs::default()),
                _ => Expr::Var(self.name()),
            };
            return self.add(expr);
        }
        let depth = depth - 1;
        use BinaryOp::*;
        const OPERATORS: &[BinaryOp] = &[
            And,
            Or,
            Equal,
            NotEqual,
            Less,
            LessEqual,
            Greater,
            GreaterEqual,
            Plus,
            Minus,
            Times,
            Divide,
            Modulo,
            Concat,
            ExternalChoice,
            InternalChoice,
            Interleave,
            Interrupt,
            Sliding,
            Sequence,
            Guard,
            Hide,
            Project,
        ];
        let bracket = match self.random.below(2) {
            0 => Bracket::Seq,
            _ => Bracket::Set,
        };
        let expr = match self.random.below(22) {
            0 => Expr::Tuple(self.exprs(depth, 2)),
            1 => {
                let count = 2 + self.random.below(2);
                Expr::Dot((0..count).map(|_| self.undotted(depth)).collect())
            }
            2 => Expr::Items(bracket, self.exprs(depth, 0)),
            3 => Expr::Comprehension(bracket, self.exprs(depth, 1), self.stmts(depth, 1)),
            4 => Expr::Range {
                bracket,
                from: self.expr(depth),
                to: (self.random.below(2) == 0).then(|| self.expr(depth)),
                stmts: (self.random.below(2) == 0).then(|| self.stmts(depth, 1)),
            },
            5 => {
                let stmts = (self.random.below(2) == 0).then(|| self.stmts(depth, 1));
                Expr::Productions(self.exprs(depth, 1), stmts)
            }
            6 => Expr::Map(self.pairs(depth)),
            7 => Expr::If(self.expr(depth), self.expr(depth), self.expr(depth)),
            8 => Expr::Let(self.decls(depth), self.expr(depth)),
            9 => Expr::Lambda([self.pat(depth)].into(), self.expr(depth)),
            10 => Expr::App(self.expr(depth), self.exprs(depth, 0)),
            11 => {
                let op = [UnaryOp::Not, UnaryOp::Negate, UnaryOp::Length][self.random.below(3)];
                Expr::Unary(op, self.expr(depth))
            }
            12..=14 => {
                let op = OPERATORS[self.random.below(OPERATORS.len())];
                Expr::Binary(op, self.expr(depth), self.expr(depth))
            }
            15 | 16 => Expr::Prefix {
                event: self.expr(depth),
                fields: (0..self.random.below(3))
                    .map(|_| match self.random.below(3) {
                        0 => Field::Output(self.expr(depth)),
                        1 => Field::Input(
                            self.pat(depth),
                            (self.random.below(2) == 0).then(|| self.expr(depth)),
                        ),
                        _ => Field::Nondeterministic(self.pat(depth), None),
                    })
                    .collect(),
                body: self.expr(depth),
            },
            17 => {
                let op = [
                    SetOp::Parallel,
                    SetOp::Exception,
                    SetOp::SyncChoice,
                    SetOp::SyncInterrupt,
                ][self.random.below(4)];
                Expr::WithSet {
                    op,
                    left: self.expr(depth),
                    set: self.expr(depth),
                    right: self.expr(depth),
                }
            }
            18 => Expr::Alphabetised {
                left: self.expr(depth),
                left_set: self.expr(depth),
                right_set: self.expr(depth),
                right: self.expr(depth),
            },
            19 => Expr::Link {
                left: self.expr(depth),
                ties: self.pairs(depth),
                stmts: self.stmts(depth, 0),
                right: self.expr(depth),
            },
            20 => Expr::Rename {
                process: self.expr(depth),
                pairs: self.pairs(depth),
                stmts: self.stmts(depth, 0),
            },
            _ => {
                let op = match self.random.below(8) {
                    0 => Replicated::Interleave,
                    1 => Replicated::ExternalChoice,
                    2 => Replicated::InternalChoice,
                    3 => Replicated::Sequence,
                    4 => Replicated::Parallel(self.expr(depth)),
                    5 => Replicated::Alphabetised(self.expr(depth)),
                    6 => Replicated::SyncChoice(self.expr(depth)),
                    _ => Replicated::Link {
                        ties: self.pairs(depth),
                        tie_stmts: self.stmts(depth, 0),
                    },
                };
                Expr::Replicated {
                    op,
                    stmts: self.stmts(depth, 1),
                    body: self.expr(depth),
                }
            }
        };
        self.add(expr)
    }
}

#[test]
fn printed_trees_parse_to_the_same_tree() {
    on_large_stack(generated_trees);
}

fn generated_trees() {
    for seed in 0..3000 {
        let mut builder = Builder {
            ast: Ast::default(),
            random: Random::new(seed),
        };
        let depth = 1 + builder.random.below(4) as u32;
        let body = builder.expr(depth);
        let name = builder.ast.names.intern("script");
        let pat = builder.ast.add_pat(Pat::Var(name), Span::default());
        let decl = builder
            .ast
            .add_decl(Decl::Pattern(pat, body), Span::default());
        builder.ast.top = vec![decl];
        let printed = print::script(&builder.ast);
        let (again, _) = parse("printed", &printed, &mut no_includes)
            .unwrap_or_else(|error| panic!("seed {seed}:\n{}\n{printed}", error.render()));
        let (wanted, found) = (print::tree(&builder.ast), print::tree(&again));
        assert_eq!(wanted, found, "seed {seed}: {printed}");
    }
}

const SEEDS: &[&str] = &[
    include_str!("scripts/thesis/a_2_4_race.csp"),
    include_str!("scripts/thesis/a_2_9_atomicity.csp"),
    include_str!("scripts/language/values.csp"),
    include_str!("scripts/language/operators.csp"),
    include_str!("scripts/language/traps.csp"),
    include_str!("scripts/language/annotations.csp"),
    include_str!("scripts/classic/alternating_bit.csp"),
];

fn front(text: &str) {
    if let Ok((ast, _)) = parse("fuzzed", text, &mut no_includes)
        && let Ok(resolved) = resolve::resolve(ast)
    {
        let _ = types::check(&resolved);
    }
}

#[test]
fn broken_scripts_are_refused_without_a_panic() {
    const TOKENS: &[&str] = &[
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "[",
        "]",
        "[|",
        "|]",
        "{|",
        "|}",
        "[[",
        "]]",
        "(| ",
        "|)",
        "->",
        "[]",
        "|~|",
        "|||",
        "||",
        "\\",
        "|\\",
        "/\\",
        ";",
        "&",
        "@",
        "@@",
        ".",
        "..",
        "?",
        "!",
        "$",
        ":",
        "::",
        " :: ",
        "=",
        "==",
        "=>",
        "=>*",
        "<-",
        "<->",
        "if",
        "then",
        "else",
        "let",
        "within",
        "assert",
        "channel",
        "datatype",
        "module",
        "exports",
        "endmodule",
        "instance",
        "print ",
        "include \"x\"",
        "\n",
        "{-",
        "-}",
        "--",
        "'",
        "\"",
        "_",
        "1",
        "99999999999999999999",
        ":[deadlock free]",
        ":[",
        "[T=",
        "-",
        "#",
        "^",
        "é",
        "\0",
        "x",
    ];
    on_large_stack(|| {
        let mut random = Random::new(1);
        for round in 0..1500 {
            let seed = SEEDS[round % SEEDS.len()];
            let mut text: Vec<char> = seed.chars().collect();
            // A short piece keeps a round cheap and its errors near each other.
            let start = random.below(text.len());
            let end = (start + 40 + random.below(600)).min(text.len());
            text = text[start..end].to_vec();
            for _ in 0..1 + random.below(6) {
                let at = random.below(text.len().max(1)).min(text.len());
                match random.below(4) {
                    0 => {
                        let until = (at + random.below(8)).min(text.len());
                        text.drain(at..until);
                    }
                    1 => {
                        let token = TOKENS[random.below(TOKENS.len())];
                        text.splice(at..at, token.chars());
                    }
                    2 => {
                        let from = random.below(text.len().max(1)).min(text.len());
                        let until = (from + random.below(30)).min(text.len());
                        let piece: Vec<char> = text[from..until].to_vec();
                        text.splice(at..at, piece);
                    }
                    _ if at < text.len() => {
                        text[at] = char::from(32 + random.below(95) as u8);
                    }
                    _ => {}
                }
            }
            let text: String = text.into_iter().collect();
            front(&text);
        }
    });
}

#[test]
fn whole_scripts_with_one_broken_place() {
    on_large_stack(|| {
        let mut random = Random::new(2);
        for round in 0..150 {
            let seed = SEEDS[round % SEEDS.len()];
            let lines: Vec<&str> = seed.lines().collect();
            let drop = random.below(lines.len());
            let swap = random.below(lines.len());
            let mut changed = lines.clone();
            changed.swap(drop, swap);
            changed.remove(drop);
            front(&changed.join("\n"));
        }
    });
}

#[test]
fn nesting_has_a_limit_and_chains_have_none() {
    on_large_stack(nesting_and_chains);
}

fn nesting_and_chains() {
    for open in [
        "(",
        "<",
        "{",
        "f(",
        "if true then ",
        "\\ x @ (",
        "[[",
        "-",
        "not ",
    ] {
        front(&format!("x = {}", open.repeat(100_000)));
    }
    // FDR asks for parentheses here, so they are printed.
    let parallel = vec!["STOP"; 500].join(" [| {} |] ");
    front(&format!("P = {parallel}"));
    let long = |item: &str, between: &str, end: &str| {
        let items = vec![item; 20_000].join(between);
        format!("channel a\nP = {items}{end}\nxs = <1>\n")
    };
    for text in [
        long("a", " -> ", " -> STOP"),
        long("STOP", " [] ", ""),
        long("STOP", " ||| ", ""),
        long("STOP", " ; ", ""),
        long("true", " & ", " & STOP"),
        long("1", " + ", ""),
        long("true", " and ", ""),
        long("xs", "^", ""),
        long("if true then STOP else ", "", "STOP"),
        long("a", ".", ""),
        long("let y = 1 within ", "", "STOP"),
    ] {
        let (ast, _) = parse("long", &text, &mut no_includes).expect("a chain is a script");
        let printed = print::script(&ast);
        parse("printed", &printed, &mut no_includes).expect("and so is what is printed");
        if let Ok(resolved) = resolve::resolve(ast) {
            let _ = types::check(&resolved);
        }
    }
}

#[test]
fn four_threads_of_ten_thousand_events() {
    let mut text = String::from("channel lock, unlock : {0..3}.{0..9}\nchannel end\n");
    for thread in 0..4 {
        text += &format!("THREAD_{thread} = ");
        for event in 0..5_000 {
            let mutex = event % 10;
            text += &format!("lock.{thread}.{mutex} -> unlock.{thread}.{mutex} -> ");
        }
        text += "SKIP\n";
    }
    text += "PROGRAM = (THREAD_0 ||| THREAD_1 ||| THREAD_2 ||| THREAD_3); end -> SKIP\n";
    text += "assert PROGRAM :[deadlock free]\n";
    let started = std::time::Instant::now();
    let mut script = Script::load("threads", &text, &mut |_, _| Err("none".into()))
        .unwrap_or_else(|error| panic!("{}", error.render()));
    let (question, _) = script
        .question(0, &Options::default())
        .unwrap_or_else(|error| panic!("{}", error.render()));
    println!("{question:?} after {:?}", started.elapsed());
}
