//! A formula as SMT-LIB 2, for any solver.
//!
//! One integer per node, as in Said et al. (2011), section 3.1. Every literal stands for a strict
//! inequality in one of the two directions and is never negated, so ties need not be forbidden:
//! however they are broken, no literal becomes false.

use std::fmt::{self, Write};

use crate::formula::{Atom, Formula, Literal, Node, Sum};

/// Declares the nodes and Booleans and asserts edges, clauses and counts.
pub fn write(
    out: &mut impl Write,
    nodes: usize,
    edges: &[(Node, Node)],
    formula: &Formula,
) -> fmt::Result {
    let logic = if formula.counts.is_empty() {
        "QF_IDL"
    } else {
        "QF_LIA"
    };
    writeln!(out, "(set-logic {logic})")?;
    for node in 0..nodes {
        writeln!(out, "(declare-fun o{node} () Int)")?;
    }
    for (variable, atom) in formula.atoms().iter().enumerate() {
        if matches!(atom, Atom::Boolean(_)) {
            writeln!(out, "(declare-fun b{variable} () Bool)")?;
        }
    }
    for (a, b) in edges {
        writeln!(out, "(assert (< o{} o{}))", a.0, b.0)?;
    }
    for clause in &formula.clauses {
        write!(out, "(assert ")?;
        disjunction(out, formula, clause, &[])?;
        writeln!(out, ")")?;
    }
    for count in &formula.counts {
        write!(out, "(assert ")?;
        disjunction(out, formula, &count.literals, &count.sums)?;
        writeln!(out, ")")?;
    }
    Ok(())
}

/// Asks whether the formula is satisfiable under these literals.
pub fn write_query(out: &mut impl Write, formula: &Formula, query: &[Literal]) -> fmt::Result {
    writeln!(out, "(push 1)")?;
    for &literal in query {
        write!(out, "(assert ")?;
        write_literal(out, formula, literal)?;
        writeln!(out, ")")?;
    }
    writeln!(out, "(check-sat)\n(pop 1)")
}

fn disjunction(
    out: &mut impl Write,
    formula: &Formula,
    literals: &[Literal],
    sums: &[Sum],
) -> fmt::Result {
    match literals.len() + sums.len() {
        0 => return write!(out, "false"),
        1 => {}
        _ => write!(out, "(or ")?,
    }
    let mut first = true;
    for &literal in literals {
        if !std::mem::take(&mut first) {
            write!(out, " ")?;
        }
        write_literal(out, formula, literal)?;
    }
    for sum in sums {
        if !std::mem::take(&mut first) {
            write!(out, " ")?;
        }
        write!(out, "(>= (+ 0")?;
        for &term in &sum.terms {
            write!(out, " (ite ")?;
            write_literal(out, formula, term)?;
            write!(out, " 1 0)")?;
        }
        write!(out, ") {})", sum.at_least)?;
    }
    if literals.len() + sums.len() > 1 {
        write!(out, ")")?;
    }
    Ok(())
}

fn write_literal(out: &mut impl Write, formula: &Formula, literal: Literal) -> fmt::Result {
    match formula.edge(literal) {
        Some((a, b)) => write!(out, "(< o{} o{})", a.0, b.0),
        None if literal.negated() => write!(out, "(not b{})", literal.variable()),
        None => write!(out, "b{}", literal.variable()),
    }
}
