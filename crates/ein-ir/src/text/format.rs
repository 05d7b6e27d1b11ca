//! The formatter: one layout for every text. Comments and blank lines stay, and no meaning changes.

use super::lexer::{Kind, lex};
use super::parse::locate_lexed;
use super::{ParseError, parse};
use cursor::Cursor;
use layout::{Doc, Item, Lines};

mod cursor;
mod layout;
#[cfg(test)]
mod tests;
mod value;

/// The text laid out: a statement a line, single spaces, long joins and lists broken and indented by two.
///
/// Names, numbers, brackets and the order of everything stay as they are written; only the braces around the value of
/// a join come and go with its length. Blank lines in a row become one. A comment within a value goes before it. What
/// is laid out is laid out the same again.
///
/// ```
/// let text = "x:input f32[4,4]   # as given\ny=einsum f32(i:4,j:4)map max( x[i,j],0.0 )";
/// let expected = "x: input f32[4, 4]  # as given\ny = einsum f32 (i: 4, j: 4) map max(x[i, j], 0.0)\n";
/// assert_eq!(ein_ir::text::format(text).unwrap(), expected);
/// ```
pub fn format(text: &str) -> Result<String, ParseError> {
    parse(text)?;
    let lexed = lex(text).map_err(|(at, why)| locate_lexed(text, at, why))?;
    let mut cursor = Cursor::new(text, &lexed);
    let mut lines = Lines::default();
    while let Some(item) = cursor.statement() {
        lines.item(&item, 0);
    }
    lines.comments(&cursor.rest(), 0);
    Ok(lines.finish())
}

impl Cursor<'_> {
    /// The next statement with the comments around it.
    fn statement(&mut self) -> Option<Item> {
        self.skip_newlines();
        if self.peek() == &Kind::End {
            return None;
        }
        let start = self.start();
        let doc = self.laid_out();
        Some(self.ended(start, doc, ""))
    }

    fn laid_out(&mut self) -> Doc {
        let first = self.take();
        if first == "return" {
            return self.words(first.into());
        }
        if self.takes(":") {
            let head = format!("{first}: {} {}", self.take(), self.take());
            return Doc::Row(vec![Doc::Text(head), self.list("[", "]", Self::glued)]);
        }
        self.takes("=");
        let operation = self.take();
        let head = format!("{first} = {operation}");
        match operation {
            "einsum" if matches!(self.peek(), Kind::Quoted(_)) => self.words(head),
            "einsum" => self.einsum(&head),
            "map" => self.joined(vec![Doc::Text(head + " ")]),
            "reshape" | "permute" | "slice" | "broadcast" | "pad" | "roll" => {
                let tensor = Doc::Text(format!("{head} {} ", self.take()));
                let list = self.list("[", "]", Self::glued);
                Doc::Row(vec![tensor, list, self.words(String::new())])
            }
            _ => {
                let operands = self.list("(", ")", Self::glued);
                Doc::Row(vec![Doc::Text(head), operands, self.words(String::new())])
            }
        }
    }

    /// The rest of a statement as words; a sign belongs to its number, brackets to their word.
    fn words(&mut self, mut text: String) -> Doc {
        let mut glue = false;
        while !matches!(self.peek(), Kind::Newline | Kind::End) {
            let tight = matches!(self.peek(), Kind::Sign("(" | ")"));
            let word = self.take();
            if !glue && !tight {
                text.push(' ');
            }
            text.push_str(word);
            glue = matches!(word, "-" | "(");
        }
        Doc::Text(text)
    }

    /// An item of a list whose tokens stand close: `0:4:2`, a size, a name.
    fn glued(&mut self) -> Doc {
        let mut text = String::new();
        while !matches!(self.peek(), Kind::Sign("," | "]" | ")")) {
            text.push_str(self.take());
        }
        Doc::Text(text)
    }

    /// Labels, monoid and join.
    fn einsum(&mut self, head: &str) -> Doc {
        let head = format!("{head} {} ", self.take());
        let labels = self.labels();
        let monoid = self.take();
        self.joined(vec![Doc::Text(head), labels, Doc::Text(format!(" {monoid} "))])
    }

    fn labels(&mut self) -> Doc {
        self.take();
        let mut items = Vec::new();
        while !self.at_sign(")") {
            // A bar that nothing follows.
            if self.at_sign("|") && self.peek_second() == &Kind::Sign(")") {
                self.take();
                break;
            }
            let start = self.start();
            let bar = if self.takes("|") { "| " } else { "" };
            let name = self.take();
            let extent = if self.takes(":") { format!(": {}", self.take()) } else { String::new() };
            let separator = if self.takes(",") { "," } else { "" };
            items.push(self.ended(start, Doc::Text(format!("{bar}{name}{extent}")), separator));
        }
        self.close("(", items, ")")
    }

    /// A join behind what stands before it: on the line if it fits, else in braces on lines of its own.
    fn joined(&mut self, before: Vec<Doc>) -> Doc {
        if !self.takes("{") {
            let start = self.start();
            let value = self.value();
            return Doc::Join { before, items: vec![self.item(start, value)], end: vec![] };
        }
        let mut items = Vec::new();
        while !self.at_sign("}") {
            let start = self.start();
            let doc = if self.takes_word("of") {
                self.operands()
            } else if self.takes_word("let") {
                let name = self.take();
                self.takes("=");
                Doc::Row(vec![Doc::Text(format!("let {name} = ")), self.value()])
            } else {
                self.value()
            };
            let separator = if self.takes(";") { ";" } else { "" };
            items.push(self.ended(start, doc, separator));
        }
        let end = self.rest();
        self.take();
        Doc::Join { before, items, end }
    }

    /// The operands behind `of`.
    fn operands(&mut self) -> Doc {
        let mut reads = Vec::new();
        loop {
            let tensor = self.take();
            reads.push(tensor.to_owned() + &self.indices());
            if !self.takes(",") {
                return Doc::Row(vec![Doc::Text("of ".into()), Doc::Reads(reads)]);
            }
        }
    }

    /// A list in brackets.
    fn list(&mut self, open: &'static str, close: &'static str, item: impl Fn(&mut Self) -> Doc) -> Doc {
        self.take();
        let mut items = Vec::new();
        while !self.at_sign(close) {
            let start = self.start();
            let doc = item(self);
            let separator = if self.takes(",") { "," } else { "" };
            items.push(self.ended(start, doc, separator));
        }
        self.close(open, items, close)
    }

    fn close(&mut self, open: &'static str, items: Vec<Item>, close: &'static str) -> Doc {
        let end = self.rest();
        self.take();
        Doc::List { open, items, end, close }
    }
}
