//! What the source calls the memory or the object of an event: `p->stop` instead of an address.
//!
//! Debug information gives the column of an access, which is that of its operator: the `=` of an
//! assignment, the `[` or `->` of a selection with gcc, the member's name with clang. From there
//! the expression is read to the left, and for a prefix operator to the right, within the line.
//! A heuristic over text: a macro or an expression over two lines gives nothing, and then the
//! address is shown.

/// Longer ones say less than an address.
const LONGEST: usize = 40;

/// What happens at the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Read,
    Write,
    /// A call whose first argument points to the object.
    Call,
}

/// The expression that is read, written or pointed to at a column, counted in bytes from 1.
pub fn at(line: &str, column: u32, role: Role) -> Option<String> {
    let text: Vec<char> = line.chars().collect();
    let byte = usize::try_from(column).ok()?.checked_sub(1)?;
    let at = line.char_indices().position(|(at, _)| at == byte)?;
    if role == Role::Call {
        return argument(&text, at);
    }
    let (begin, end) = match text[at] {
        '*' => (at, chain_after(&text, at)?),
        _ if is_step(&text, at) && !has_operand_before(&text, at) => {
            (at + 2, chain_after(&text, at + 2)?)
        }
        // A copy of a whole object: what is read stands on the right.
        '=' if role == Role::Read => (at + 1, chain_after(&text, at + 1)?),
        _ if is_step(&text, at) || is_assignment(&text, at) => left_of(&text, at)?,
        '[' => (left_of(&text, at)?.0, closing(&text, at)? + 1),
        '-' if text.get(at + 1) == Some(&'>') => {
            (left_of(&text, at)?.0, end_of_word(&text, at + 2))
        }
        '.' => (left_of(&text, at)?.0, end_of_word(&text, at + 1)),
        c if is_word(c) => {
            let end = end_of_word(&text, at);
            (left_of(&text, end)?.0, end)
        }
        _ => return None,
    };
    let found: String = text.get(begin..end)?.iter().collect();
    let found = found.trim();
    let named = found.chars().any(|c| c.is_alphabetic() || c == '_');
    let complete = !found.ends_with(['>', '.']);
    (named && complete && found.chars().count() <= LONGEST).then(|| found.to_string())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_step(text: &[char], at: usize) -> bool {
    matches!(text[at..], ['+', '+', ..] | ['-', '-', ..])
}

/// `=` and its kin, but no comparison.
fn is_assignment(text: &[char], at: usize) -> bool {
    match text[at..] {
        ['=', '=', ..] => false,
        ['=', ..] => true,
        ['+' | '-' | '*' | '/' | '%' | '&' | '|' | '^', '=', ..] => true,
        ['<', '<', '=', ..] | ['>', '>', '=', ..] => true,
        _ => false,
    }
}

fn has_operand_before(text: &[char], at: usize) -> bool {
    let before = text[..at].iter().rev().find(|c| !c.is_whitespace());
    before.is_some_and(|&c| is_word(c) || c == ')' || c == ']')
}

fn end_of_word(text: &[char], mut at: usize) -> usize {
    while text.get(at).is_some_and(|&c| is_word(c)) {
        at += 1;
    }
    at
}

/// The bracket that closes the one at `at`.
fn closing(text: &[char], at: usize) -> Option<usize> {
    let mut depth = 0;
    for (i, c) in text.iter().enumerate().skip(at) {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// The bracket that opens the one at `at`.
fn opening(text: &[char], at: usize) -> Option<usize> {
    let mut depth = 0;
    for i in (0..=at).rev() {
        match text[i] {
            ')' | ']' => depth += 1,
            '(' | '[' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// The chain of names, selections and indices that ends before `end`, with the `*` before it.
fn left_of(text: &[char], end: usize) -> Option<(usize, usize)> {
    let mut end = end;
    while end > 0 && text[end - 1].is_whitespace() {
        end -= 1;
    }
    let mut begin = end;
    loop {
        match begin.checked_sub(1).map(|before| text[before])? {
            ')' | ']' => {
                begin = opening(text, begin - 1)?;
                let goes_on =
                    begin > 0 && (is_word(text[begin - 1]) || ")]".contains(text[begin - 1]));
                if goes_on {
                    continue;
                }
            }
            c if is_word(c) => {
                while begin > 0 && is_word(text[begin - 1]) {
                    begin -= 1;
                }
            }
            _ => return None,
        }
        if begin >= 2 && text[begin - 2..begin] == ['-', '>'] {
            begin -= 2;
        } else if begin >= 1 && text[begin - 1] == '.' {
            begin -= 1;
        } else {
            break;
        }
    }
    // A star is a prefix unless something stands before it to be multiplied.
    while begin > 0 && text[begin - 1] == '*' && !has_operand_before(text, begin - 1) {
        begin -= 1;
    }
    Some((begin, end))
}

/// Where the prefix operators and the chain that begin at `begin` end.
fn chain_after(text: &[char], begin: usize) -> Option<usize> {
    let mut at = begin;
    while text.get(at).is_some_and(|&c| c == '*' || c.is_whitespace()) {
        at += 1;
    }
    let first = *text.get(at)?;
    at = match first {
        '(' => closing(text, at)? + 1,
        c if is_word(c) => end_of_word(text, at),
        _ => return None,
    };
    loop {
        at = match text[at..] {
            ['-', '>', ..] => end_of_word(text, at + 2),
            ['.', ..] => end_of_word(text, at + 1),
            ['[', ..] => closing(text, at)? + 1,
            _ => return Some(at),
        };
    }
}

/// What the first argument of the call at `at` points to.
fn argument(text: &[char], at: usize) -> Option<String> {
    let open = (at..text.len()).find(|&i| text[i] == '(')?;
    let called = text[at..open]
        .iter()
        .all(|&c| is_word(c) || c.is_whitespace());
    let end = closing(text, open)?;
    let mut depth = 0;
    let inside = &text[open + 1..end];
    let comma = inside.iter().position(|c| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        *c == ',' && depth == 0
    });
    let argument: String = inside[..comma.unwrap_or(inside.len())].iter().collect();
    let argument = argument.trim();
    let plain = argument
        .chars()
        .all(|c| is_word(c) || "->.[]&*+ ()".contains(c));
    let named = argument.chars().any(|c| c.is_alphabetic() || c == '_');
    if !called || !plain || !named || argument.chars().count() > LONGEST {
        return None;
    }
    let pointed = argument.strip_prefix('&').unwrap_or(argument).trim();
    let inner = pointed
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let pointed = inner.unwrap_or(pointed);
    // Other parentheses are of calls or conversions.
    (!pointed.contains(['(', ')'])).then(|| pointed.to_string())
}

#[cfg(test)]
mod tests {
    use norns_random::Random;

    use super::*;

    /// The column is marked with a bar before it.
    fn check(role: Role, marked: &str, expected: Option<&str>) {
        let column = marked.find('|').unwrap() as u32 + 1;
        let line = marked.replacen('|', "", 1);
        assert_eq!(at(&line, column, role).as_deref(), expected, "{marked}");
    }

    #[test]
    fn assignments_name_what_they_write() {
        check(Role::Write, "    p->stop |= 1;", Some("p->stop"));
        check(Role::Write, "    p->counts[i] |+= 3;", Some("p->counts[i]"));
        check(Role::Read, "    p->counts[i] |+= 3;", Some("p->counts[i]"));
        check(
            Role::Write,
            "    p->counts[i + 1]|++;",
            Some("p->counts[i + 1]"),
        );
        check(Role::Write, "    |++p->count;", Some("p->count"));
        check(Role::Write, "    *q |= *q + 1;", Some("*q"));
        check(Role::Write, "    (*q)|--;", Some("(*q)"));
        check(Role::Write, "    f(a)->x |= 1;", Some("f(a)->x"));
        check(Role::Read, "    *p |= *p->next;", Some("*p->next"));
        check(Role::Write, "    a * b|[i] = 1;", Some("b[i]"));
    }

    #[test]
    fn selections_name_what_they_read() {
        check(Role::Read, "    sink = p|->stop;", Some("p->stop"));
        check(Role::Read, "    sink = p->|stop;", Some("p->stop"));
        check(
            Role::Read,
            "    if (p->next && p->next|->stop)",
            Some("p->next->stop"),
        );
        check(
            Role::Read,
            "    x = p->counts|[i + f(2)] + 1;",
            Some("p->counts[i + f(2)]"),
        );
        check(Role::Read, "    seen = |*block;", Some("*block"));
        check(Role::Read, "    while (!|done) {", Some("done"));
        check(Role::Read, "    return s|.total;", Some("s.total"));
    }

    #[test]
    fn calls_name_what_their_argument_points_to() {
        check(
            Role::Call,
            "    |pthread_mutex_lock(&p->lock);",
            Some("p->lock"),
        );
        check(
            Role::Call,
            "    |pthread_cond_wait(&q->changed, &q->lock);",
            Some("q->changed"),
        );
        check(Role::Call, "    |free(block);", Some("block"));
        check(Role::Call, "    |free(take(queue));", None);
        check(
            Role::Call,
            "    |pthread_mutex_init(&(pool->lock), NULL);",
            Some("pool->lock"),
        );
        check(Role::Call, "    |free((void *)(block));", None);
    }

    #[test]
    fn what_is_not_understood_has_no_name() {
        check(Role::Read, "    MACRO|(x, y);", None);
        check(Role::Read, "    |+ 1;", None);
        check(Role::Write, "  |= 1;", None);
        check(Role::Write, "    a |== b;", None);
        check(Role::Read, "    x[|", None);
        check(Role::Read, "    p|->", None);
        check(Role::Call, "    |lock(", None);
        assert_eq!(at("x = 1;", 0, Role::Write), None);
        assert_eq!(at("x = 1;", 99, Role::Write), None);
    }

    #[test]
    fn any_text_is_read_without_a_fall() {
        let letters: Vec<char> = "a*()[]->.=+&, 1ä".chars().collect();
        let mut random = Random::new(7);
        for _ in 0..200_000 {
            let mut line = String::new();
            for _ in 0..12 {
                line.push(random.pick(&letters));
            }
            for role in [Role::Read, Role::Write, Role::Call] {
                at(&line, random.below(14) as u32, role);
            }
        }
    }
}
