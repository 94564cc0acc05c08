//! Divides Rust source text into tokens: as much of a lexer as finding paths and items needs.

/// A token of a source file. Comments and white space yield none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// The text as written.
    pub text: String,
    /// The line that the token starts on, from 1.
    pub line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or a keyword.
    Word,
    /// `::`, or one character of any other operator or bracket.
    Mark,
    /// A string, character, number or lifetime.
    Literal,
}

impl Token {
    /// Returns whether this is the keyword, identifier or mark `text`.
    pub fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }

    pub fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }
}

/// Returns the tokens of `source`.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: source, line: 1 };
    let mut found = Vec::new();
    while let Some(token) = lexer.next_token() {
        found.push(token);
    }
    found
}

/// Returns the tokens without each item, statement or field under `#[cfg(test)]`.
pub fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let starts = tokens[at..].iter().zip(attribute).filter(|(t, text)| t.is(text)).count();
        if starts == attribute.len() {
            at = end_of_item(tokens, at + attribute.len());
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// Returns the index after the item that starts at `at`, including its other attributes.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    while at + 1 < tokens.len() && tokens[at].is("#") && tokens[at + 1].is("[") {
        at = end_of_group(tokens, at + 1);
    }
    let name = if tokens.get(at).is_some_and(|t| t.is("pub")) { at + 1 } else { at };
    let is_field = tokens.get(name).is_some_and(Token::is_word)
        && tokens.get(name + 1).is_some_and(|t| t.is(":"));
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is(";") || is_field && token.is(",") {
            return at + 1;
        }
        // A field may be the last of its struct, without a comma.
        if token.is("}") {
            return at;
        }
        let opens = token.is("{");
        at =
            if opens || token.is("(") || token.is("[") { end_of_group(tokens, at) } else { at + 1 };
        if opens {
            // `use a::{b, c};` and `const X: T = T { … };` go on to their semicolon.
            return if tokens.get(at).is_some_and(|t| t.is(";")) { at + 1 } else { at };
        }
    }
    at
}

/// Returns the index after the bracket that closes the one at `open`.
pub fn end_of_group(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.is("{") || token.is("(") || token.is("[") {
            depth += 1;
        } else if token.is("}") || token.is(")") || token.is("]") {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl Lexer<'_> {
    fn next_token(&mut self) -> Option<Token> {
        self.skip_space_and_comments();
        let line = self.line;
        let first = self.rest.chars().next()?;
        let (kind, bytes) = match string_length(self.rest) {
            Some(bytes) => (Kind::Literal, bytes),
            None if first.is_ascii_digit() => (Kind::Literal, number_length(self.rest)),
            None if first == '\'' => (Kind::Literal, quote_length(self.rest)),
            None if is_word_char(first) => (Kind::Word, word_length(self.rest)),
            None if self.rest.starts_with("::") => (Kind::Mark, 2),
            None => (Kind::Mark, first.len_utf8()),
        };
        Some(Token { kind, text: self.take(bytes), line })
    }

    fn skip_space_and_comments(&mut self) {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            self.take(space);
            if self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.take(block_comment_length(self.rest));
            } else {
                return;
            }
        }
    }

    fn take(&mut self, bytes: usize) -> String {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken.to_string()
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_length(text: &str) -> usize {
    text.find(|c| !is_word_char(c)).unwrap_or(text.len())
}

/// Returns the length of a number; `1..2` is three tokens, and so is `pair.0.field` after its dot.
fn number_length(text: &str) -> usize {
    let whole = word_length(text);
    let mut after = text[whole..].chars();
    let is_fraction = after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit());
    if is_fraction { whole + 1 + word_length(&text[whole + 1..]) } else { whole }
}

/// Returns the length of a character literal or a lifetime.
fn quote_length(text: &str) -> usize {
    let inner = &text[1..];
    match inner.chars().next() {
        Some('\\') => 1 + closing_quote(inner, '\''),
        Some(c) if inner[c.len_utf8()..].starts_with('\'') => 1 + c.len_utf8() + 1,
        _ => 1 + word_length(inner),
    }
}

/// Returns the length of a string literal of any kind at the start of `text`.
fn string_length(text: &str) -> Option<usize> {
    let prefix = word_length(text);
    let marks = &text[prefix..];
    match &text[..prefix] {
        "" | "b" | "c" if marks.starts_with('"') => {
            Some(prefix + 1 + closing_quote(&marks[1..], '"'))
        }
        "b" if marks.starts_with('\'') => Some(prefix + quote_length(marks)),
        "r" | "br" | "cr" => {
            let hashes = marks.len() - marks.trim_start_matches('#').len();
            let content = marks[hashes..].strip_prefix('"')?;
            let close = format!("\"{}", "#".repeat(hashes));
            let length = content.find(&close).map_or(content.len(), |at| at + close.len());
            Some(prefix + hashes + 1 + length)
        }
        _ => None,
    }
}

/// Returns the length up to and including the `quote` that no backslash escapes.
fn closing_quote(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

fn block_comment_length(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(source).into_iter().filter(Token::is_word).map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_literals_yield_no_words() {
        let source = r##"
            // crate::a
            /* crate::b /* nested */ still a comment */
            let x = "crate::c \" crate::d"; let y = r#"crate::"e"#; let z = b'\''; 'f'; '\n';
            let w: &'static str = b"g"; for i in 0..end {} pair.0.field
        "##;
        let expected = ["let", "x", "let", "y", "let", "z", "let", "w", "str", "for", "i", "in"];
        let expected = [&expected[..], &["end", "pair", "field"]].concat();
        assert_eq!(words(source), expected);
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let found = tokens("a /* \n */ \"\n\" b\nc");
        let lines: Vec<(String, usize)> = found.into_iter().map(|t| (t.text, t.line)).collect();
        let expected = [("a", 1), ("\"\n\"", 2), ("b", 3), ("c", 4)];
        assert_eq!(lines, expected.map(|(text, line)| (text.to_string(), line)));
    }

    #[test]
    fn what_stands_under_cfg_test_is_left_out() {
        let source = "
            a; #[cfg(test)] #[allow(x)] mod tests { b } c;
            #[cfg(test)] use d::{e, f}; g; #[cfg(test)] fn h<I, J>(k: L) -> M { n } o;
            struct P { #[cfg(test)] q: R<S>, t: U, #[cfg(test)] v: W }
            #[cfg(test)] mod x; #[cfg(not(test))] y;
        ";
        let kept = without_tests(&tokens(source));
        let kept: Vec<&str> = kept.iter().filter(|t| t.is_word()).map(|t| &*t.text).collect();
        let expected = ["a", "c", "g", "o", "struct", "P", "t", "U", "cfg", "not", "test", "y"];
        assert_eq!(kept, expected);
    }
}
