//! Text to tokens.
//!
//! The rules follow the FDR 4.2 manual and the observable behaviour of libcspm. A line break
//! becomes a token only where neither neighbour absorbs it (`Tok::absorbs_newline_*`); `(|`
//! opens a map only before a blank; `::` is a type annotation beside a blank and a scope
//! otherwise. Whether `>` closes a sequence is the parser's decision. More lenient than FDR in
//! three places that FDR rejects: `>==` is `>` and `==`, a blank may stand between `:` and the
//! `[` of a property, and a line may begin with a block comment.

use rustc_hash::FxHashMap;

use crate::diagnostic::{Diagnostic, Stage};
use crate::syntax::ast::{Interner, Symbol};
use crate::syntax::source::{SourceMap, Span};
use crate::syntax::token::{Tok, Token};

/// Gives the text of an included file: the path as written, and the name of the file it is
/// written in. Returns the name to show and the text.
pub type Includes<'a> = &'a mut dyn FnMut(&str, &str) -> Result<(String, String), String>;

const MAX_INCLUDE_DEPTH: usize = 64;

/// The tokens of a script, included files in place, ending with `Tok::End`.
pub fn tokens(
    name: &str,
    text: &str,
    sources: &mut SourceMap,
    names: &mut Interner,
    includes: Includes,
) -> Result<Vec<Token>, Diagnostic> {
    let mut out = Vec::with_capacity(text.len() / 4);
    let words = keywords(names);
    lex_file(name, text, sources, names, &words, includes, &mut out, 0)?;
    let end = out.last().map_or(0, |token| token.span.high);
    out.push(Token {
        tok: Tok::End,
        span: Span::new(end, end),
    });
    Ok(out)
}

fn keywords(names: &mut Interner) -> FxHashMap<Symbol, Tok> {
    use Tok::*;
    [
        ("true", True),
        ("false", False),
        ("if", If),
        ("then", Then),
        ("else", Else),
        ("let", Let),
        ("within", Within),
        ("channel", Channel),
        ("assert", Assert),
        ("datatype", Datatype),
        ("subtype", Subtype),
        ("external", External),
        ("transparent", Transparent),
        ("nametype", Nametype),
        ("module", Module),
        ("exports", Exports),
        ("endmodule", EndModule),
        ("instance", Instance),
        ("Timed", Timed),
        ("and", And),
        ("or", Or),
        ("not", Not),
    ]
    .into_iter()
    .map(|(word, tok)| (names.intern(word), tok))
    .collect()
}

#[allow(clippy::too_many_arguments)]
fn lex_file(
    name: &str,
    text: &str,
    sources: &mut SourceMap,
    names: &mut Interner,
    words: &FxHashMap<Symbol, Tok>,
    includes: Includes,
    out: &mut Vec<Token>,
    depth: usize,
) -> Result<(), Diagnostic> {
    let Some(start) = sources.add(name.to_owned(), text.to_owned()) else {
        let message = format!("{name} is too large");
        return Err(Diagnostic::new(Stage::Read, Span::default(), message));
    };
    let mut lexer = Lexer {
        text: text.as_bytes(),
        source: text,
        at: 0,
        start,
        newline: false,
        line_start: true,
    };
    // The next token is the first of this file, or the first after an included file.
    let mut edge = depth > 0;
    loop {
        lexer.skip_blanks()?;
        if lexer.at >= lexer.text.len() {
            break;
        }
        let low = lexer.at;
        if lexer.line_start
            && let Some(path) = lexer.include()?
        {
            let span = lexer.span(low);
            if depth >= MAX_INCLUDE_DEPTH {
                return Err(Diagnostic::new(
                    Stage::Read,
                    span,
                    format!("files are included more than {MAX_INCLUDE_DEPTH} deep"),
                )
                .help("does a file include itself?"));
            }
            let (included, content) = includes(&path, name).map_err(|reason| {
                Diagnostic::new(
                    Stage::Read,
                    span,
                    format!("cannot include `{path}`: {reason}"),
                )
                .help("a path is relative to the file that includes it")
            })?;
            // A timed section may hold includes.
            let opens_section = match &out[..] {
                [.., before, last] => {
                    last.tok == Tok::LeftBrace && matches!(before.tok, Tok::Timed | Tok::RightParen)
                }
                _ => false,
            };
            if let Some(last) = out.last()
                && last.tok.absorbs_newline_after()
                && last.tok != Tok::Newline
                && !opens_section
            {
                return Err(crosses_files(last));
            }
            push_newline(out, span);
            lex_file(
                &included,
                &content,
                sources,
                names,
                words,
                includes,
                out,
                depth + 1,
            )?;
            if let Some(last) = out.last()
                && last.tok.absorbs_newline_after()
                && last.tok != Tok::Newline
                && !opens_section
            {
                return Err(crosses_files(last));
            }
            let span = lexer.span(lexer.at);
            push_newline(out, span);
            lexer.newline = true;
            edge = true;
            continue;
        }
        let tok = lexer.token(names, words)?;
        let span = lexer.span(low);
        if std::mem::take(&mut edge)
            && tok.absorbs_newline_before()
            && !out.is_empty()
            && !matches!(tok, Tok::RightBrace | Tok::Within)
        {
            return Err(crosses_files(&Token { tok, span }));
        }
        let newline = std::mem::take(&mut lexer.newline);
        if newline && !tok.absorbs_newline_before() {
            let soaked = out
                .last()
                .is_none_or(|last| last.tok.absorbs_newline_after());
            if !soaked {
                push_newline(out, Span::new(span.low, span.low));
            }
        }
        lexer.line_start = false;
        out.push(Token { tok, span });
    }
    Ok(())
}

fn crosses_files(token: &Token) -> Diagnostic {
    Diagnostic::new(
        Stage::Syntax,
        token.span,
        format!(
            "a definition cannot continue in another file, but {} stands at its edge",
            token.tok.describe()
        ),
    )
    .help("end every definition in the file in which it begins")
}

fn push_newline(out: &mut Vec<Token>, span: Span) {
    if !matches!(
        out.last(),
        None | Some(Token {
            tok: Tok::Newline,
            ..
        })
    ) {
        out.push(Token {
            tok: Tok::Newline,
            span,
        });
    }
}

struct Lexer<'a> {
    text: &'a [u8],
    source: &'a str,
    at: usize,
    start: u32,
    // a line break has been passed since the last token
    newline: bool,
    // nothing but blanks since the start of the line
    line_start: bool,
}

impl Lexer<'_> {
    fn span(&self, low: usize) -> Span {
        Span::new(self.start + low as u32, self.start + self.at as u32)
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn starts(&self, word: &str) -> bool {
        self.text[self.at..].starts_with(word.as_bytes())
    }

    fn error(&self, low: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Stage::Syntax, self.span(low), message)
    }

    fn skip_blanks(&mut self) -> Result<(), Diagnostic> {
        loop {
            match self.peek(0) {
                b'\n' => {
                    self.newline = true;
                    self.line_start = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'-' if self.peek(1) == b'-' => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                b'{' if self.peek(1) == b'-' => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), Diagnostic> {
        let low = self.at;
        let mut depth = 0;
        while self.at < self.text.len() {
            if self.starts("{-") {
                depth += 1;
                self.at += 2;
            } else if self.starts("-}") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return Ok(());
                }
            } else {
                if self.peek(0) == b'\n' {
                    self.newline = true;
                    self.line_start = true;
                }
                self.at += 1;
            }
        }
        self.at = low + 2;
        Err(self
            .error(low, "this comment does not end")
            .help("comments nest: every `{-` needs its own `-}`"))
    }

    /// `include "path"` at the start of a line.
    fn include(&mut self) -> Result<Option<String>, Diagnostic> {
        const WORD: &str = "include";
        if !self.starts(WORD) || !matches!(self.peek(WORD.len()), b' ' | b'\t' | b'"') {
            return Ok(None);
        }
        let low = self.at;
        let line = self.source[self.at..].split('\n').next().unwrap_or("");
        let rest = line[WORD.len()..].trim();
        let path = rest
            .strip_prefix('"')
            .and_then(|rest| rest.split_once('"'))
            .filter(|(_, after)| after.trim().is_empty() || after.trim().starts_with("--"));
        self.at += line.len();
        match path {
            Some((path, _)) => Ok(Some(path.to_owned())),
            None => Err(self
                .error(low, "malformed include")
                .help("write: include \"file.csp\"")),
        }
    }

    fn token(
        &mut self,
        names: &mut Interner,
        words: &FxHashMap<Symbol, Tok>,
    ) -> Result<Tok, Diagnostic> {
        let low = self.at;
        let first = self.peek(0);
        if first.is_ascii_alphabetic() {
            while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
                self.at += 1;
            }
            while self.peek(0) == b'\'' {
                self.at += 1;
            }
            let word = &self.source[low..self.at];
            if word == "print" && self.line_start && self.print_follows() {
                return Ok(Tok::Print);
            }
            let symbol = names.intern(word);
            return Ok(words.get(&symbol).cloned().unwrap_or(Tok::Ident(symbol)));
        }
        if first.is_ascii_digit() {
            while self.peek(0).is_ascii_digit() {
                self.at += 1;
            }
            let digits = &self.source[low..self.at];
            return digits.parse().map(Tok::Int).map_err(|_| {
                self.error(low, format!("the number {digits} is too large"))
                    .help("numbers have 64 bits")
            });
        }
        match first {
            b'\'' => return self.character(low),
            b'"' => return self.string(low),
            b':' => {
                if let Some(tok) = self.property(low)? {
                    return Ok(tok);
                }
            }
            b'[' => {
                for model in ["T", "FD", "F", "VD", "V", "RD", "R"] {
                    if self.text[self.at + 1..].starts_with(model.as_bytes())
                        && self.peek(1 + model.len()) == b'='
                    {
                        self.at += model.len() + 2;
                        return Ok(Tok::Refines(model.into()));
                    }
                }
            }
            b'<' => {
                let mut end = self.at + 1;
                while matches!(
                    self.text.get(end),
                    Some(b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
                ) {
                    end += 1;
                }
                if self.text.get(end) == Some(&b'>') {
                    self.at = end + 1;
                    return Ok(Tok::EmptySeq);
                }
            }
            b'(' if self.peek(1) == b'|'
                && matches!(self.peek(2), b' ' | b'\t' | b'\n' | b'\r') =>
            {
                self.at += 2;
                return Ok(Tok::LeftMap);
            }
            b'>' if self.starts(">==") => {
                self.at += 1;
                return Ok(Tok::Greater);
            }
            _ => {}
        }
        // Longest first.
        const MARKS: &[(&str, Tok)] = &[
            ("<->", Tok::Tie),
            ("|~|", Tok::InternalChoice),
            ("|||", Tok::Interleave),
            ("=>*", Tok::YieldStar),
            ("[]", Tok::ExternalChoice),
            ("/\\", Tok::Interrupt),
            ("->", Tok::Arrow),
            ("[>", Tok::Sliding),
            ("|>", Tok::ExceptionEnd),
            ("||", Tok::Parallel),
            ("|\\", Tok::Project),
            ("/+", Tok::SyncInterruptStart),
            ("+\\", Tok::SyncInterruptEnd),
            ("[+", Tok::SyncChoiceStart),
            ("+]", Tok::SyncChoiceEnd),
            ("==", Tok::Equal),
            ("!=", Tok::NotEqual),
            ("<=", Tok::LessEqual),
            (">=", Tok::GreaterEqual),
            ("{|", Tok::LeftPipeBrace),
            ("|}", Tok::RightPipeBrace),
            ("|)", Tok::RightMap),
            ("[[", Tok::LeftRename),
            ("]]", Tok::RightRename),
            ("[|", Tok::LeftPipeSquare),
            ("|]", Tok::RightPipeSquare),
            ("..", Tok::DotDot),
            ("<-", Tok::DrawnFrom),
            ("::", Tok::Scope),
            ("=>", Tok::Yield),
            ("@@", Tok::DoubleAt),
            (";", Tok::Semicolon),
            ("&", Tok::Guard),
            ("<", Tok::Less),
            (">", Tok::Greater),
            ("(", Tok::LeftParen),
            (")", Tok::RightParen),
            ("{", Tok::LeftBrace),
            ("}", Tok::RightBrace),
            ("[", Tok::LeftSquare),
            ("]", Tok::RightSquare),
            ("|", Tok::Pipe),
            (",", Tok::Comma),
            (".", Tok::Dot),
            ("?", Tok::Question),
            ("!", Tok::Exclamation),
            ("$", Tok::Dollar),
            (":", Tok::Colon),
            ("=", Tok::Define),
            ("\\", Tok::Backslash),
            ("@", Tok::At),
            ("+", Tok::Plus),
            ("-", Tok::Minus),
            ("*", Tok::Times),
            ("/", Tok::Divide),
            ("%", Tok::Modulo),
            ("^", Tok::Concat),
            ("#", Tok::Hash),
            ("_", Tok::Wildcard),
        ];
        for (mark, tok) in MARKS {
            if self.starts(mark) {
                let blank_before = low == 0 || self.text[low - 1].is_ascii_whitespace();
                self.at += mark.len();
                if *tok == Tok::Scope
                    && (blank_before || matches!(self.peek(0), 0 | b' ' | b'\t' | b'\n' | b'\r'))
                {
                    return Ok(Tok::OfType);
                }
                return Ok(tok.clone());
            }
        }
        let character = self.source[low..].chars().next().unwrap_or(' ');
        self.at += character.len_utf8();
        let mut error = self.error(low, format!("unexpected character `{character}`"));
        error = match character {
            '→' => error.help("write the arrow as `->`"),
            '□' => error.help("write external choice as `[]`"),
            '⊓' => error.help("write internal choice as `|~|`"),
            '’' | '‘' => error.help("write a straight quote `'`"),
            _ => error,
        };
        Err(error)
    }

    fn print_follows(&self) -> bool {
        matches!(self.peek(0), b' ' | b'\t') && {
            let rest = self.source[self.at..].trim_start_matches([' ', '\t']);
            !rest.starts_with('=') || rest.starts_with("==")
        }
    }

    fn character(&mut self, low: usize) -> Result<Tok, Diagnostic> {
        let mut rest = self.source[low + 1..].chars();
        let mut length = 1;
        let value = match rest.next() {
            Some('\\') => {
                length += 1;
                let escaped = rest.next();
                length += escaped.map_or(0, char::len_utf8);
                escaped.map(unescape)
            }
            Some('\n') | None => None,
            Some(other) => {
                length += other.len_utf8();
                Some(other)
            }
        };
        if let (Some(value), Some('\'')) = (value, rest.next()) {
            self.at = low + length + 1;
            return Ok(Tok::Char(value));
        }
        self.at = low + 1;
        Err(self
            .error(low, "this character does not end")
            .help("a character stands between two quotes: 'x'"))
    }

    fn string(&mut self, low: usize) -> Result<Tok, Diagnostic> {
        let mut value = String::new();
        let mut rest = self.source[low + 1..].char_indices();
        while let Some((at, character)) = rest.next() {
            match character {
                '"' => {
                    self.at = low + 1 + at + 1;
                    return Ok(Tok::Str(value.into()));
                }
                '\n' => break,
                '\\' => match rest.next() {
                    Some((_, '\n')) | None => break,
                    Some((_, escaped)) => value.push(unescape(escaped)),
                },
                other => value.push(other),
            }
        }
        self.at = low + 1;
        Err(self
            .error(low, "this string does not end on its line")
            .help("put a `\"` at its end"))
    }

    /// `:[words]`, `:[words [M]]`, with an optional `:` behind.
    fn property(&mut self, low: usize) -> Result<Option<Tok>, Diagnostic> {
        let after = self.source[low + 1..].trim_start();
        let Some(inside) = after.strip_prefix('[') else {
            return Ok(None);
        };
        let adjacent = self.peek(1) == b'[';
        let word: String = inside
            .trim_start()
            .chars()
            .take_while(|c| c.is_ascii_lowercase())
            .collect();
        const WORDS: &[&str] = &[
            "tau",
            "deadlock",
            "livelock",
            "divergence",
            "deterministic",
            "has",
            "partial",
            "symmetry",
        ];
        if !adjacent && !WORDS.contains(&word.as_str()) {
            return Ok(None);
        }
        let open = self.source.len() - inside.len();
        let mut depth = 1;
        for (at, character) in inside.char_indices() {
            match character {
                '[' => depth += 1,
                ']' => depth -= 1,
                '=' | '"' | '{' | '(' | ',' => break,
                _ => {}
            }
            if depth == 0 {
                let words: Vec<&str> = inside[..at].split_whitespace().collect();
                self.at = open + at + 1;
                if self.peek(0) == b':' && self.peek(1) != b'[' {
                    self.at += 1;
                }
                return Ok(Some(Tok::Property(words.join(" ").into())));
            }
        }
        self.at = open;
        Err(self
            .error(low, "this property does not end")
            .help("properties look like `:[deadlock free [FD]]`"))
    }
}

fn unescape(character: char) -> char {
    match character {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}
