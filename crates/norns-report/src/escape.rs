//! Text of the program under test made harmless: its names, paths and messages are hostile until
//! proven otherwise.

use std::fmt::Write;

/// Text for a terminal: control characters, also the two-byte ones, and characters that reorder
/// or hide text are shown as escapes.
pub fn terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            write!(out, "\\u{{{:x}}}", u32::from(c)).expect("writing to a string cannot fail");
        } else {
            out.push(c);
        }
    }
    out
}

/// Bidirectional controls, zero-width characters and other format characters.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// An HTML or XML text under construction. Only text that is part of Norns goes in as it is:
/// `raw` takes nothing that was computed.
#[derive(Default)]
pub struct Markup(String);

impl Markup {
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Also safe inside a quoted attribute. Characters that XML forbids become U+FFFD.
    pub fn text(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                c if c.is_control() || is_invisible(c) => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        self
    }

    pub fn number(&mut self, number: usize) -> &mut Self {
        write!(self.0, "{number}").expect("writing to a string cannot fail");
        self
    }

    /// JSON that is safe inside a script element: it cannot close the element or open a comment.
    pub fn json(&mut self, value: &impl serde::Serialize) -> &mut Self {
        let text = serde_json::to_string(value).expect("sketches have string keys only");
        for c in text.chars() {
            if c == '<' || is_invisible(c) {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(self.0, "\\u{unit:04x}").expect("writing to a string cannot fail");
                }
            } else {
                self.0.push(c);
            }
        }
        self
    }

    pub fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_sees_no_control_sequence() {
        assert_eq!(
            terminal("a\x1b[31mb\u{9b}c\u{202e}d"),
            "a\\u{1b}[31mb\\u{9b}c\\u{202e}d"
        );
    }

    #[test]
    fn markup_from_the_program_is_only_text() {
        let mut html = Markup::default();
        html.raw("<b title=\"")
            .text("\"><script>")
            .raw("\">")
            .text("a&b")
            .raw("</b>");
        assert_eq!(
            html.finish(),
            "<b title=\"&quot;&gt;&lt;script&gt;\">a&amp;b</b>"
        );
    }

    #[test]
    fn json_cannot_close_its_script_element() {
        let mut html = Markup::default();
        html.json(&"</script><!--");
        assert_eq!(html.finish(), "\"\\u003c/script>\\u003c!--\"");
    }
}
