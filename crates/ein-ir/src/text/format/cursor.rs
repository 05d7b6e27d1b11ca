//! Tokens of a text as they are written, with the comments between them.

use super::layout::{Comment, Doc, Item};
use crate::text::lexer::{Kind, Lexed, Token};

/// Where reading stands.
pub(super) struct Cursor<'t> {
    text: &'t str,
    lexed: &'t Lexed,
    at: usize,
    /// The next comment.
    comment: usize,
    /// Where what was read last ends.
    end: usize,
    /// Comments that were passed and have no place yet.
    passed: Vec<Comment>,
}

/// What stands before an item.
pub(super) struct Start {
    before: Vec<Comment>,
    blank: bool,
}

impl<'t> Cursor<'t> {
    pub fn new(text: &'t str, lexed: &'t Lexed) -> Self {
        Self { text, lexed, at: 0, comment: 0, end: 0, passed: Vec::new() }
    }

    fn token(&self) -> &'t Token {
        &self.lexed.tokens[self.at]
    }

    pub fn peek(&self) -> &'t Kind {
        &self.token().kind
    }

    /// The kind after the next one.
    pub fn peek_second(&self) -> &'t Kind {
        &self.lexed.tokens[(self.at + 1).min(self.lexed.tokens.len() - 1)].kind
    }

    pub fn at_sign(&self, sign: &'static str) -> bool {
        self.peek() == &Kind::Sign(sign)
    }

    /// The next token as it is written; `End` is never passed.
    pub fn take(&mut self) -> &'t str {
        self.pass_comments();
        let token = self.token();
        self.end = token.end;
        self.at = (self.at + 1).min(self.lexed.tokens.len() - 1);
        &self.text[token.at..token.end]
    }

    /// Passes the ends of statements.
    pub fn skip_newlines(&mut self) {
        while self.peek() == &Kind::Newline {
            self.pass_comments();
            self.at += 1;
        }
    }

    pub fn takes(&mut self, sign: &'static str) -> bool {
        let found = self.at_sign(sign);
        if found {
            self.take();
        }
        found
    }

    pub fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Kind::Word(w) if w == word);
        if found {
            self.take();
        }
        found
    }

    /// What stands between what was read last and a place.
    fn gap(&self, to: usize) -> &'t str {
        &self.text[self.end..to]
    }

    /// Passes the comments before the next token.
    fn pass_comments(&mut self) {
        while let Some(&(start, end)) = self.lexed.comments.get(self.comment).filter(|c| c.0 < self.token().at) {
            let blank = is_blank(self.gap(start));
            self.passed.push(Comment { text: self.text[start..end].trim_end().into(), blank });
            self.end = end;
            self.comment += 1;
        }
    }

    /// Takes note of what stands before an item.
    pub fn start(&mut self) -> Start {
        self.pass_comments();
        Start { before: std::mem::take(&mut self.passed), blank: is_blank(self.gap(self.token().at)) }
    }

    /// An item that has been read. A comment within it that has no place there goes before it.
    pub fn item(&mut self, start: Start, doc: Doc) -> Item {
        let Start { mut before, mut blank } = start;
        for (n, mut comment) in std::mem::take(&mut self.passed).into_iter().enumerate() {
            comment.blank = n == 0 && before.is_empty() && std::mem::take(&mut blank);
            before.push(comment);
        }
        Item { before, blank, doc, separator: "", behind: None }
    }

    /// An item that has been read to its end, its separator included; a comment on the line of its end stays there.
    pub fn ended(&mut self, start: Start, doc: Doc, separator: &'static str) -> Item {
        let item = self.item(start, doc);
        let comment = self.lexed.comments.get(self.comment);
        let behind = comment.filter(|c| c.0 < self.token().at && !self.gap(c.0).contains('\n')).map(|&(start, end)| {
            self.end = end;
            self.comment += 1;
            self.text[start..end].trim_end().to_string()
        });
        Item { separator, behind, ..item }
    }

    /// The comments before the next token that belong to no item.
    pub fn rest(&mut self) -> Vec<Comment> {
        self.pass_comments();
        std::mem::take(&mut self.passed)
    }
}

/// Whether a blank line lies in what stands between two things.
fn is_blank(gap: &str) -> bool {
    gap.matches('\n').count() > 1
}
