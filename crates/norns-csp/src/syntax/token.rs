//! The tokens of CSPM, and which of them swallow the line breaks around them.

use crate::syntax::ast::Symbol;
use crate::syntax::source::Span;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tok {
    Int(i64),
    Char(char),
    Str(Box<str>),
    Ident(Symbol),
    Newline,
    End,
    /// `:[ … ]` or `:[ … ]:`, the text between the brackets with single blanks.
    Property(Box<str>),
    Refines(Box<str>),
    // words
    True,
    False,
    If,
    Then,
    Else,
    Let,
    Within,
    Channel,
    Assert,
    Datatype,
    Subtype,
    External,
    Transparent,
    Nametype,
    Module,
    Exports,
    EndModule,
    Instance,
    Timed,
    Print,
    And,
    Or,
    Not,
    // process operators
    ExternalChoice,
    InternalChoice,
    Interleave,
    Interrupt,
    Arrow,
    Sliding,
    ExceptionEnd,
    Parallel,
    Semicolon,
    Guard,
    Project,
    SyncInterruptStart,
    SyncInterruptEnd,
    SyncChoiceStart,
    SyncChoiceEnd,
    Backslash,
    // relations and arithmetic
    Equal,
    NotEqual,
    LessEqual,
    GreaterEqual,
    Less,
    Greater,
    EmptySeq,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
    Concat,
    Hash,
    // brackets
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftPipeBrace,
    RightPipeBrace,
    LeftMap,
    RightMap,
    LeftRename,
    RightRename,
    LeftPipeSquare,
    RightPipeSquare,
    LeftSquare,
    RightSquare,
    // the rest
    Pipe,
    Comma,
    DotDot,
    Dot,
    Question,
    Exclamation,
    Dollar,
    DrawnFrom,
    Tie,
    Scope,
    Colon,
    OfType,
    YieldStar,
    Yield,
    DoubleAt,
    At,
    Define,
    Wildcard,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub tok: Tok,
    pub span: Span,
}

impl Tok {
    /// Whether this keyword can only stand at the beginning of a declaration.
    pub fn begins_declaration(&self) -> bool {
        use Tok::*;
        matches!(
            self,
            Channel
                | Assert
                | Datatype
                | Subtype
                | Nametype
                | External
                | Transparent
                | Module
                | Instance
                | Timed
                | Print
        )
    }

    /// Whether a line break before this token never ends a declaration. True for what cannot
    /// begin one; `-`, `<`, brackets and names may, so a line break before them counts.
    pub fn absorbs_newline_before(&self) -> bool {
        use Tok::*;
        !matches!(
            self,
            Ident(_)
                | EmptySeq
                | Less
                | Minus
                | Hash
                | LeftParen
                | LeftBrace
                | LeftPipeBrace
                | LeftMap
                | Scope
                | Channel
                | Assert
                | Datatype
                | Subtype
                | External
                | Transparent
                | Nametype
                | Module
                | Exports
                | EndModule
                | Instance
                | Timed
                | Print
                | Newline
                | End
        )
    }

    /// Whether a line break after this token never ends a declaration.
    pub fn absorbs_newline_after(&self) -> bool {
        use Tok::*;
        !matches!(
            self,
            Int(_)
                | Char(_)
                | Str(_)
                | Ident(_)
                | True
                | False
                | RightParen
                | RightBrace
                | RightPipeBrace
                | RightMap
                | RightRename
                | Greater
                | EmptySeq
                | Exports
                | EndModule
                | Property(_)
                | Newline
                | End
        )
    }

    /// The token as it is named in an error message.
    pub fn describe(&self) -> String {
        use Tok::*;
        let text = match self {
            Int(value) => return format!("the number `{value}`"),
            Char(_) => return "a character".into(),
            Str(_) => return "a string".into(),
            Ident(_) => return "a name".into(),
            Newline => return "the end of the line".into(),
            End => return "the end of the file".into(),
            Property(words) => return format!("`:[{words}]`"),
            Refines(model) => return format!("`[{model}=`"),
            True => "true",
            False => "false",
            If => "if",
            Then => "then",
            Else => "else",
            Let => "let",
            Within => "within",
            Channel => "channel",
            Assert => "assert",
            Datatype => "datatype",
            Subtype => "subtype",
            External => "external",
            Transparent => "transparent",
            Nametype => "nametype",
            Module => "module",
            Exports => "exports",
            EndModule => "endmodule",
            Instance => "instance",
            Timed => "Timed",
            Print => "print",
            And => "and",
            Or => "or",
            Not => "not",
            ExternalChoice => "[]",
            InternalChoice => "|~|",
            Interleave => "|||",
            Interrupt => "/\\",
            Arrow => "->",
            Sliding => "[>",
            ExceptionEnd => "|>",
            Parallel => "||",
            Semicolon => ";",
            Guard => "&",
            Project => "|\\",
            SyncInterruptStart => "/+",
            SyncInterruptEnd => "+\\",
            SyncChoiceStart => "[+",
            SyncChoiceEnd => "+]",
            Backslash => "\\",
            Equal => "==",
            NotEqual => "!=",
            LessEqual => "<=",
            GreaterEqual => ">=",
            Less => "<",
            Greater => ">",
            EmptySeq => "<>",
            Plus => "+",
            Minus => "-",
            Times => "*",
            Divide => "/",
            Modulo => "%",
            Concat => "^",
            Hash => "#",
            LeftParen => "(",
            RightParen => ")",
            LeftBrace => "{",
            RightBrace => "}",
            LeftPipeBrace => "{|",
            RightPipeBrace => "|}",
            LeftMap => "(|",
            RightMap => "|)",
            LeftRename => "[[",
            RightRename => "]]",
            LeftPipeSquare => "[|",
            RightPipeSquare => "|]",
            LeftSquare => "[",
            RightSquare => "]",
            Pipe => "|",
            Comma => ",",
            DotDot => "..",
            Dot => ".",
            Question => "?",
            Exclamation => "!",
            Dollar => "$",
            DrawnFrom => "<-",
            Tie => "<->",
            Scope => "::",
            Colon => ":",
            OfType => "::",
            YieldStar => "=>*",
            Yield => "=>",
            DoubleAt => "@@",
            At => "@",
            Define => "=",
            Wildcard => "_",
        };
        format!("`{text}`")
    }
}
