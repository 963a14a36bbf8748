//! Text to tree and back.

pub mod ast;
pub mod copy;
pub mod lexer;
pub mod parser;
pub mod print;
pub mod source;
pub mod token;
pub mod walk;
