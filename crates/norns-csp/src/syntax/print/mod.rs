//! Tree to text: CSPM that parses to the same tree, with as few parentheses as that allows.
//!
//! Works through a stack of things left to write, so a chain of any length is no recursion.
//! Comments and the layout of the source are lost.

mod declarations;

use crate::syntax::ast::*;

/// The whole script.
pub fn script(ast: &Ast) -> String {
    let mut printer = Printer::new(ast, false);
    printer.decls(&ast.top, 0);
    printer.out
}

/// The whole script with a parenthesis around every operand: two scripts print the same if and
/// only if their trees are the same.
pub fn tree(ast: &Ast) -> String {
    let mut printer = Printer::new(ast, true);
    printer.decls(&ast.top, 0);
    printer.out
}

/// One expression on one line, cut off after `limit` characters.
pub fn expression(ast: &Ast, expr: ExprId, limit: usize) -> String {
    let mut printer = Printer::new(ast, false);
    printer.limit = limit;
    printer.run(vec![Item::Expr(expr, 0, true, false)]);
    let mut text: String = printer.out.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() > limit {
        text = text.chars().take(limit).collect::<String>() + "…";
    }
    text
}

enum Item {
    Text(&'static str),
    Owned(String),
    // the least level that needs no parentheses; nothing follows it in its bracket; it stands
    // directly in a sequence, where `>` would end it
    Expr(ExprId, u8, bool, bool),
    Pat(PatId, u8),
    Decls(Box<[DeclId]>, usize),
}

struct Printer<'a> {
    ast: &'a Ast,
    out: String,
    full: bool,
    limit: usize,
    indent: usize,
}

/// The levels of `parser::level`, and 24 for what binds by itself.
fn binary(op: BinaryOp) -> (&'static str, u8, u8, u8) {
    use BinaryOp::*;
    let (text, level) = match op {
        // The right side of these two is a set: processes in it need parentheses, or the
        // parser would take the hiding into them.
        Hide => return (" \\ ", 3, 3, 12),
        Project => return (" |\\ ", 3, 3, 12),
        Guard => return (" & ", 11, 12, 11),
        Interleave => (" ||| ", 4),
        InternalChoice => (" |~| ", 6),
        ExternalChoice => (" [] ", 7),
        Interrupt => (" /\\ ", 8),
        Sliding => (" [> ", 9),
        Sequence => (" ; ", 10),
        Or => (" or ", 16),
        And => (" and ", 17),
        Equal => return (" == ", 19, 20, 20),
        NotEqual => return (" != ", 19, 20, 20),
        Less => return (" < ", 19, 20, 20),
        LessEqual => return (" <= ", 19, 20, 20),
        Greater => return (" > ", 19, 20, 20),
        GreaterEqual => return (" >= ", 19, 20, 20),
        Plus => (" + ", 20),
        Minus => (" - ", 20),
        Times => (" * ", 21),
        Divide => (" / ", 21),
        Modulo => (" % ", 21),
        Concat => ("^", 23),
    };
    (text, level, level, level + 1)
}

impl<'a> Printer<'a> {
    fn new(ast: &'a Ast, full: bool) -> Printer<'a> {
        Printer {
            ast,
            out: String::new(),
            full,
            limit: usize::MAX,
            indent: 0,
        }
    }

    fn push(&mut self, text: &str) {
        // `<-`, `--` and `{-` mean something else.
        if text.starts_with('-') && self.out.ends_with(['<', '-', '{']) {
            self.out.push(' ');
        }
        self.out.push_str(text);
    }

    fn run(&mut self, items: Vec<Item>) {
        let mut stack: Vec<Item> = items;
        stack.reverse();
        while let Some(item) = stack.pop() {
            if self.out.len() > self.limit.saturating_mul(4) {
                return;
            }
            let mut next = Vec::new();
            match item {
                Item::Text(text) => self.push(text),
                Item::Owned(text) => self.push(&text),
                Item::Expr(id, least, last, in_seq) => {
                    self.expr(id, least, last, in_seq, &mut next);
                }
                Item::Pat(id, least) => self.pat(id, least, &mut next),
                Item::Decls(decls, indent) => {
                    self.out.push('\n');
                    self.decls(&decls, indent);
                    self.out.push_str(&"  ".repeat(indent - 1));
                }
            }
            stack.extend(next.into_iter().rev());
        }
    }

    fn expr(&mut self, id: ExprId, least: u8, last: bool, in_seq: bool, out: &mut Vec<Item>) {
        let ast = self.ast;
        let node = ast.expr(id);
        let open = matches!(
            node,
            Expr::If(..) | Expr::Let(..) | Expr::Lambda(..) | Expr::Replicated { .. }
        );
        let level = match node {
            Expr::Int(value) if *value < 0 => 20,
            Expr::Both(..) => 2,
            Expr::Dot(_) => 14,
            Expr::Unary(UnaryOp::Not, _) => 18,
            Expr::Unary(UnaryOp::Negate, _) => 20,
            Expr::Unary(UnaryOp::Length, _) => 22,
            Expr::Binary(op, ..) => binary(*op).1,
            Expr::Prefix { .. } => 11,
            Expr::WithSet { op, .. } => match op {
                SetOp::Parallel | SetOp::Exception => 5,
                SetOp::SyncChoice => 7,
                SetOp::SyncInterrupt => 8,
            },
            Expr::Alphabetised { .. } | Expr::Link { .. } => 5,
            Expr::App(..) | Expr::Rename { .. } => 24,
            _ if open => 0,
            _ => 25,
        };
        let ends_seq = in_seq && matches!(node, Expr::Binary(BinaryOp::Greater, ..));
        let brackets = match open {
            true => !last && (least > 0 || in_seq),
            false => level < least || ends_seq,
        } || self.full && level < 25 && least > 0;
        let (last, in_seq) = (last || brackets, in_seq && !brackets);
        if brackets {
            out.push(Item::Text("("));
        }
        match node {
            Expr::Int(value) => out.push(Item::Owned(value.to_string())),
            Expr::Bool(true) => out.push(Item::Text("true")),
            Expr::Bool(false) => out.push(Item::Text("false")),
            Expr::Char(value) => out.push(Item::Owned(quote_char(*value))),
            Expr::Str(value) => out.push(Item::Owned(quote(value))),
            Expr::Var(name) => out.push(Item::Owned(ast.name(*name).to_owned())),
            Expr::Wildcard => out.push(Item::Text("_")),
            Expr::Both(left, right) => {
                out.push(Item::Expr(*left, 3, false, in_seq));
                out.push(Item::Text(" @@ "));
                out.push(Item::Expr(*right, 3, last, in_seq));
            }
            Expr::Tuple(items) => {
                out.push(Item::Text("("));
                self.list(items, false, out);
                out.push(Item::Text(")"));
            }
            Expr::Dot(items) => {
                for (index, &item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(Item::Text("."));
                    }
                    out.push(Item::Expr(item, 24, false, in_seq));
                }
            }
            Expr::Items(bracket, items) => {
                out.push(Item::Text(opening(*bracket)));
                self.list(items, *bracket == Bracket::Seq, out);
                out.push(Item::Text(closing(*bracket)));
            }
            Expr::Comprehension(bracket, items, stmts) => {
                let seq = *bracket == Bracket::Seq;
                out.push(Item::Text(opening(*bracket)));
                self.list(items, seq, out);
                out.push(Item::Text(" | "));
                self.stmts(stmts, seq, out);
                out.push(Item::Text(closing(*bracket)));
            }
            Expr::Range {
                bracket,
                from,
                to,
                stmts,
            } => {
                let seq = *bracket == Bracket::Seq;
                out.push(Item::Text(opening(*bracket)));
                out.push(Item::Expr(*from, 1, false, seq));
                out.push(Item::Text(".."));
                if let Some(to) = to {
                    out.push(Item::Expr(*to, 1, false, seq));
                }
                if let Some(stmts) = stmts {
                    out.push(Item::Text(" | "));
                    self.stmts(stmts, seq, out);
                }
                out.push(Item::Text(closing(*bracket)));
            }
            Expr::Productions(items, stmts) => {
                out.push(Item::Text("{|"));
                self.list(items, false, out);
                if let Some(stmts) = stmts {
                    out.push(Item::Text(" | "));
                    self.stmts(stmts, false, out);
                }
                out.push(Item::Text("|}"));
            }
            Expr::Map(pairs) => {
                out.push(Item::Text("(| "));
                for (index, &(key, value)) in pairs.iter().enumerate() {
                    if index > 0 {
                        out.push(Item::Text(", "));
                    }
                    out.push(Item::Expr(key, 1, false, false));
                    out.push(Item::Text(" => "));
                    out.push(Item::Expr(value, 1, false, false));
                }
                out.push(Item::Text(" |)"));
            }
            Expr::If(condition, then, other) => {
                out.push(Item::Text("if "));
                out.push(Item::Expr(*condition, 0, true, in_seq));
                out.push(Item::Text(" then "));
                out.push(Item::Expr(*then, 0, true, in_seq));
                out.push(Item::Text(" else "));
                out.push(Item::Expr(*other, 0, true, in_seq));
            }
            Expr::Let(decls, body) => {
                out.push(Item::Text("let"));
                out.push(Item::Decls(decls.clone(), self.indent + 2));
                out.push(Item::Text("within "));
                out.push(Item::Expr(*body, 0, true, in_seq));
            }
            Expr::Lambda(pats, body) => {
                out.push(Item::Text("\\ "));
                self.pats(pats, out);
                out.push(Item::Text(" @ "));
                out.push(Item::Expr(*body, 0, true, in_seq));
            }
            Expr::App(function, arguments) => {
                out.push(Item::Expr(*function, 24, false, in_seq));
                out.push(Item::Text("("));
                self.list(arguments, false, out);
                out.push(Item::Text(")"));
            }
            Expr::Unary(op, operand) => {
                let (text, least) = match op {
                    UnaryOp::Not => ("not ", 18),
                    UnaryOp::Negate => ("-", 21),
                    UnaryOp::Length => ("#", 22),
                };
                // `-5` would be read as a number.
                let number = *op == UnaryOp::Negate && matches!(ast.expr(*operand), Expr::Int(_));
                out.push(Item::Text(text));
                if number {
                    out.push(Item::Text("("));
                }
                out.push(Item::Expr(*operand, least, last, in_seq));
                if number {
                    out.push(Item::Text(")"));
                }
            }
            Expr::Binary(op, left, right) => {
                let (text, _, left_least, right_least) = binary(*op);
                out.push(Item::Expr(*left, left_least, false, in_seq));
                out.push(Item::Text(text));
                out.push(Item::Expr(*right, right_least, last, in_seq));
            }
            Expr::Prefix {
                event,
                fields,
                body,
            } => {
                out.push(Item::Expr(*event, 13, false, in_seq));
                for field in fields {
                    match field {
                        Field::Input(pat, set) | Field::Nondeterministic(pat, set) => {
                            let input = matches!(field, Field::Input(..));
                            out.push(Item::Text(if input { "?" } else { "$" }));
                            out.push(Item::Pat(*pat, 13));
                            if let Some(set) = set {
                                out.push(Item::Text(":"));
                                out.push(Item::Expr(*set, 16, false, in_seq));
                            }
                        }
                        Field::Output(value) => {
                            out.push(Item::Text("!"));
                            out.push(Item::Expr(*value, 14, false, in_seq));
                        }
                    }
                }
                out.push(Item::Text(" -> "));
                out.push(Item::Expr(*body, 11, last, in_seq));
            }
            Expr::WithSet {
                op,
                left,
                set,
                right,
            } => {
                let (opening, closing, least) = match op {
                    SetOp::Parallel => (" [| ", " |] ", 6),
                    SetOp::Exception => (" [| ", " |> ", 6),
                    SetOp::SyncChoice => (" [+ ", " +] ", 7),
                    SetOp::SyncInterrupt => (" /+ ", " +\\ ", 8),
                };
                let right_least = if level == 5 { 6 } else { least + 1 };
                out.push(Item::Expr(*left, least, false, in_seq));
                out.push(Item::Text(opening));
                out.push(Item::Expr(*set, 1, true, false));
                out.push(Item::Text(closing));
                out.push(Item::Expr(*right, right_least, last, in_seq));
            }
            Expr::Alphabetised {
                left,
                left_set,
                right_set,
                right,
            } => {
                out.push(Item::Expr(*left, 6, false, in_seq));
                out.push(Item::Text(" [ "));
                out.push(Item::Expr(*left_set, 1, false, false));
                out.push(Item::Text(" || "));
                out.push(Item::Expr(*right_set, 1, false, false));
                out.push(Item::Text(" ] "));
                out.push(Item::Expr(*right, 6, last, in_seq));
            }
            Expr::Link {
                left,
                ties,
                stmts,
                right,
            } => {
                out.push(Item::Expr(*left, 6, false, in_seq));
                out.push(Item::Text(" [ "));
                self.pairs(ties, " <-> ", stmts, out);
                out.push(Item::Text(" ] "));
                out.push(Item::Expr(*right, 6, last, in_seq));
            }
            Expr::Rename {
                process,
                pairs,
                stmts,
            } => {
                out.push(Item::Expr(*process, 24, false, in_seq));
                out.push(Item::Text("[[ "));
                self.pairs(pairs, " <- ", stmts, out);
                out.push(Item::Text(" ]]"));
            }
            Expr::Replicated { op, stmts, body } => {
                match op {
                    Replicated::Interleave => out.push(Item::Text("||| ")),
                    Replicated::ExternalChoice => out.push(Item::Text("[] ")),
                    Replicated::InternalChoice => out.push(Item::Text("|~| ")),
                    Replicated::Sequence => out.push(Item::Text("; ")),
                    Replicated::Alphabetised(_) => out.push(Item::Text("|| ")),
                    Replicated::Parallel(set) => {
                        out.push(Item::Text("[| "));
                        out.push(Item::Expr(*set, 1, false, false));
                        out.push(Item::Text(" |] "));
                    }
                    Replicated::SyncChoice(set) => {
                        out.push(Item::Text("[+ "));
                        out.push(Item::Expr(*set, 1, false, false));
                        out.push(Item::Text(" +] "));
                    }
                    Replicated::Link { ties, tie_stmts } => {
                        out.push(Item::Text("[ "));
                        self.pairs(ties, " <-> ", tie_stmts, out);
                        out.push(Item::Text(" ] "));
                    }
                }
                self.stmts(stmts, false, out);
                out.push(Item::Text(" @ "));
                let mut least = 0;
                if let Replicated::Alphabetised(set) = op {
                    out.push(Item::Text("[ "));
                    out.push(Item::Expr(*set, 1, false, false));
                    out.push(Item::Text(" ] "));
                    least = 6;
                }
                out.push(Item::Expr(*body, least, last, in_seq));
            }
        }
        if brackets {
            out.push(Item::Text(")"));
        }
    }

    fn list(&self, items: &[ExprId], seq: bool, out: &mut Vec<Item>) {
        for (index, &item) in items.iter().enumerate() {
            if index > 0 {
                out.push(Item::Text(", "));
            }
            out.push(Item::Expr(item, 1, false, seq));
        }
    }

    fn pairs(
        &self,
        pairs: &[(ExprId, ExprId)],
        between: &'static str,
        stmts: &Stmts,
        out: &mut Vec<Item>,
    ) {
        for (index, &(left, right)) in pairs.iter().enumerate() {
            if index > 0 {
                out.push(Item::Text(", "));
            }
            out.push(Item::Expr(left, 1, false, false));
            out.push(Item::Text(between));
            out.push(Item::Expr(right, 1, false, false));
        }
        if !stmts.is_empty() {
            out.push(Item::Text(" | "));
            self.stmts(stmts, false, out);
        }
    }

    fn stmts(&self, stmts: &[Stmt], seq: bool, out: &mut Vec<Item>) {
        for (index, stmt) in stmts.iter().enumerate() {
            if index > 0 {
                out.push(Item::Text(", "));
            }
            match stmt {
                Stmt::Generator(pat, set) => {
                    out.push(Item::Pat(*pat, 3));
                    out.push(Item::Text(" <- "));
                    out.push(Item::Expr(*set, 1, false, seq));
                }
                Stmt::Condition(condition) => out.push(Item::Expr(*condition, 1, false, seq)),
            }
        }
    }

    fn pats(&self, pats: &[PatId], out: &mut Vec<Item>) {
        for (index, &pat) in pats.iter().enumerate() {
            if index > 0 {
                out.push(Item::Text(", "));
            }
            out.push(Item::Pat(pat, 3));
        }
    }

    fn pat(&self, id: PatId, least: u8, out: &mut Vec<Item>) {
        let node = self.ast.pat(id);
        let level = match node {
            Pat::Int(value) if *value < 0 => 20,
            Pat::Dot(_) => 14,
            Pat::Concat(..) => 23,
            Pat::Both(..) => 2,
            _ => 25,
        };
        let brackets = level < least || self.full && level < 25 && least > 0;
        if brackets {
            out.push(Item::Text("("));
        }
        match node {
            Pat::Int(value) => out.push(Item::Owned(value.to_string())),
            Pat::Bool(true) => out.push(Item::Text("true")),
            Pat::Bool(false) => out.push(Item::Text("false")),
            Pat::Char(value) => out.push(Item::Owned(quote_char(*value))),
            Pat::Str(value) => out.push(Item::Owned(quote(value))),
            Pat::Var(name) => out.push(Item::Owned(self.ast.name(*name).to_owned())),
            Pat::Wildcard => out.push(Item::Text("_")),
            Pat::Tuple(pats) => {
                out.push(Item::Text("("));
                self.pats(pats, out);
                out.push(Item::Text(")"));
            }
            Pat::Dot(pats) => {
                for (index, &pat) in pats.iter().enumerate() {
                    if index > 0 {
                        out.push(Item::Text("."));
                    }
                    out.push(Item::Pat(pat, 24));
                }
            }
            Pat::Seq(pats) => {
                out.push(Item::Text("<"));
                self.pats(pats, out);
                out.push(Item::Text(">"));
            }
            Pat::Set(pats) => {
                out.push(Item::Text("{"));
                self.pats(pats, out);
                out.push(Item::Text("}"));
            }
            Pat::Concat(left, right) => {
                out.push(Item::Pat(*left, 23));
                out.push(Item::Text("^"));
                out.push(Item::Pat(*right, 24));
            }
            Pat::Both(left, right) => {
                out.push(Item::Pat(*left, 3));
                out.push(Item::Text(" @@ "));
                out.push(Item::Pat(*right, 3));
            }
        }
        if brackets {
            out.push(Item::Text(")"));
        }
    }
}

fn opening(bracket: Bracket) -> &'static str {
    match bracket {
        Bracket::Seq => "<",
        Bracket::Set => "{",
    }
}

fn closing(bracket: Bracket) -> &'static str {
    match bracket {
        Bracket::Seq => ">",
        Bracket::Set => "}",
    }
}

fn quote_char(value: char) -> String {
    let mut text = String::from("'");
    escape(value, &mut text);
    text + "'"
}

/// A string as CSPM writes it.
pub fn quote(value: &str) -> String {
    let mut text = String::from("\"");
    for character in value.chars() {
        escape(character, &mut text);
    }
    text + "\""
}

fn escape(character: char, out: &mut String) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\'' | '"' | '\\' => {
            out.push('\\');
            out.push(character);
        }
        other => out.push(other),
    }
}
