//! Conditions as text of SMT-LIB 2, and the models that a solver answers with.

use std::fmt::Write;

use super::expression::{Expression, Expressions, Node, Operator};
use super::solve::Condition;

/// A script that asks for an input under which all conditions hold.
#[must_use]
pub fn script(expressions: &Expressions, conditions: &[Condition]) -> String {
    let roots: Vec<Expression> = conditions.iter().map(|one| one.expression).collect();
    let mut text = String::from("(reset)\n(set-logic QF_BV)\n");
    for part in expressions.parts(&roots) {
        let number = part.0;
        let body = match expressions.node(part) {
            Node::Constant(value) => format!("#x{value:016x}"),
            Node::Input(byte) => {
                let _ = writeln!(text, "(declare-const b{byte} (_ BitVec 8))");
                format!("((_ zero_extend 56) b{byte})")
            }
            Node::Binary(operator, a, b) => binary(operator, a.0, b.0),
            Node::SignExtend(s, a) => {
                let top = 63 - s;
                format!("((_ sign_extend {s}) ((_ extract {top} 0) e{}))", a.0)
            }
            Node::Choose(c, a, b) => {
                format!("(ite (= e{} #x0000000000000000) e{} e{})", c.0, b.0, a.0)
            }
        };
        let _ = writeln!(text, "(define-fun e{number} () (_ BitVec 64) {body})");
    }
    for condition in conditions {
        let relation = if condition.holds { "distinct" } else { "=" };
        let number = condition.expression.0;
        let _ = writeln!(text, "(assert ({relation} e{number} #x0000000000000000))");
    }
    text.push_str("(check-sat)\n");
    text
}

fn binary(operator: Operator, a: u32, b: u32) -> String {
    let name = match operator {
        Operator::Add => "bvadd",
        Operator::Subtract => "bvsub",
        Operator::Multiply => "bvmul",
        Operator::DivideUnsigned => "bvudiv",
        Operator::DivideSigned => "bvsdiv",
        Operator::RemainderUnsigned => "bvurem",
        Operator::RemainderSigned => "bvsrem",
        Operator::ShiftLeft => "bvshl",
        Operator::ShiftRightLogical => "bvlshr",
        Operator::ShiftRightArithmetic => "bvashr",
        Operator::And => "bvand",
        Operator::Or => "bvor",
        Operator::Xor => "bvxor",
        Operator::Equal => "=",
        Operator::UnsignedLess => "bvult",
        Operator::UnsignedLessOrEqual => "bvule",
        Operator::SignedLess => "bvslt",
        Operator::SignedLessOrEqual => "bvsle",
    };
    match operator {
        _ if operator.is_comparison() => {
            format!("(ite ({name} e{a} e{b}) #x0000000000000001 #x0000000000000000)")
        }
        // The interpreter takes the number of bits modulo 64, as the processor does.
        Operator::ShiftLeft | Operator::ShiftRightLogical | Operator::ShiftRightArithmetic => {
            format!("({name} e{a} (bvand e{b} #x000000000000003f))")
        }
        // A division by zero ends the run; in an expression it is 0.
        Operator::DivideUnsigned
        | Operator::DivideSigned
        | Operator::RemainderUnsigned
        | Operator::RemainderSigned => {
            format!("(ite (= e{b} #x0000000000000000) #x0000000000000000 ({name} e{a} e{b}))")
        }
        _ => format!("({name} e{a} e{b})"),
    }
}

/// The question for the values of these bytes, after `sat`.
#[must_use]
pub fn question(bytes: &[u32]) -> String {
    let names: Vec<String> = bytes.iter().map(|byte| format!("b{byte}")).collect();
    format!("(get-value ({}))\n", names.join(" "))
}

/// The bytes of an answer to `question`, such as `((b0 #x41) (b3 #x00))`.
#[must_use]
pub fn answer(text: &str) -> Vec<(u32, u8)> {
    let mut words = text
        .split(|c: char| c.is_whitespace() || "()".contains(c))
        .filter(|word| !word.is_empty());
    let mut bytes = Vec::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let number = name
            .strip_prefix('b')
            .and_then(|number| number.parse().ok());
        let value = match (value.strip_prefix("#x"), value.strip_prefix("#b")) {
            (Some(digits), _) => u8::from_str_radix(digits, 16).ok(),
            (None, Some(digits)) => u8::from_str_radix(digits, 2).ok(),
            (None, None) => None,
        };
        bytes.extend(number.zip(value));
    }
    bytes
}
