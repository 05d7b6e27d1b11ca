//! Values as documents.

use super::cursor::Cursor;
use super::layout::Doc;
use crate::expr::Binary;
use crate::text::lexer::Kind;
use crate::text::{COMPARISON, Notation, SIGN, notation};

impl Cursor<'_> {
    /// A value up to where it ends.
    pub(super) fn value(&mut self) -> Doc {
        self.chain(1)
    }

    /// A chain of signs of a level between values that bind tighter.
    fn chain(&mut self, level: u8) -> Doc {
        if level >= SIGN {
            return self.prefix();
        }
        let first = self.chain(level + 1);
        let mut rest = Vec::new();
        while let Some(sign) = self.sign_of(level) {
            self.take();
            rest.push((sign, self.chain(level + 1)));
        }
        if rest.is_empty() { first } else { Doc::Chain { first: Box::new(first), rest } }
    }

    /// The next sign, if it is of a level.
    fn sign_of(&self, level: u8) -> Option<&'static str> {
        let &Kind::Sign(sign) = self.peek() else { return None };
        let turned = level == COMPARISON && matches!(sign, ">" | ">=");
        let infix = Binary::ALL.into_iter().any(|f| notation(f) == Notation::Infix(sign, level));
        (turned || infix).then_some(sign)
    }

    fn prefix(&mut self) -> Doc {
        let mut signs = String::new();
        while matches!(self.peek(), Kind::Sign("-" | "!")) {
            signs.push_str(self.take());
        }
        let primary = self.primary();
        if signs.is_empty() { primary } else { Doc::Row(vec![Doc::Text(signs), primary]) }
    }

    fn primary(&mut self) -> Doc {
        if self.at_sign("(") {
            return self.list("(", ")", Self::value);
        }
        if self.at_sign("$") {
            return Doc::Text(self.taken(2));
        }
        let named = matches!(self.peek(), Kind::Word(_) | Kind::Quoted(_));
        let word = self.take();
        match self.peek() {
            Kind::Sign("[") => Doc::Text(word.to_owned() + &self.indices()),
            Kind::Sign("(") if word == "bits" => {
                let bits = word.to_owned() + &self.taken(3);
                Doc::Text(self.typed(bits))
            }
            Kind::Sign("(") if named => Doc::Row(vec![Doc::Text(word.into()), self.list("(", ")", Self::value)]),
            Kind::Sign("<") if word == "cast" && matches!(self.peek_second(), Kind::Word(_)) => {
                let head = word.to_owned() + &self.taken(3);
                Doc::Row(vec![Doc::Text(head), self.list("(", ")", Self::value)])
            }
            _ => Doc::Text(self.typed(word.into())),
        }
    }

    /// The next tokens, close together.
    fn taken(&mut self, count: usize) -> String {
        (0..count).map(|_| self.take()).collect()
    }

    /// A number with its type.
    fn typed(&mut self, number: String) -> String {
        if self.takes(":") { format!("{number}:{}", self.take()) } else { number }
    }

    /// `[2*i + 1, j]`, from its bracket on.
    pub(super) fn indices(&mut self) -> String {
        let mut text = self.take().to_owned();
        let mut first = true;
        while !self.at_sign("]") {
            let token = self.take();
            match token {
                "," => text.push_str(", "),
                "+" | "-" if !first => text.push_str(&format!(" {token} ")),
                _ => text.push_str(token),
            }
            first = token == ",";
        }
        text + self.take()
    }
}
