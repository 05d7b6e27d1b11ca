//! Documents that fit on a line, or are broken over several.

/// Columns that a line should not pass.
const WIDTH: usize = 100;
/// Spaces of an indentation.
const STEP: usize = 2;

/// A comment on a line of its own.
#[derive(Clone, Debug)]
pub(super) struct Comment {
    pub text: String,
    /// Whether a blank line stands before it.
    pub blank: bool,
}

/// Something that may stand on lines of its own, with its comments.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub before: Vec<Comment>,
    /// Whether a blank line stands before it, behind the comments.
    pub blank: bool,
    pub doc: Doc,
    pub separator: &'static str,
    /// The comment behind it.
    pub behind: Option<String>,
}

/// What is laid out.
#[derive(Clone, Debug)]
pub(super) enum Doc {
    /// Never broken.
    Text(String),
    /// One after the other.
    Row(Vec<Doc>),
    /// Reads with commas between: as many on a line as fit.
    Reads(Vec<String>),
    /// Items in brackets.
    List { open: &'static str, items: Vec<Item>, end: Vec<Comment>, close: &'static str },
    /// Values with signs between; broken before a sign.
    Chain { first: Box<Doc>, rest: Vec<(&'static str, Doc)> },
    /// A join behind its head: one value on the line, or all in braces.
    Join { before: Vec<Doc>, items: Vec<Item>, end: Vec<Comment> },
}

impl Doc {
    /// The document on one line, if it can be.
    fn flat(&self) -> Option<String> {
        let all = |docs: &[Doc]| docs.iter().map(Doc::flat).collect::<Option<String>>();
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Row(docs) => all(docs),
            Self::Reads(reads) => Some(reads.join(", ")),
            Self::List { open, items, end, close } => {
                let items = items.iter().map(Item::flat).collect::<Option<Vec<String>>>()?;
                end.is_empty().then(|| format!("{open}{}{close}", items.join(" ")))
            }
            Self::Chain { first, rest } => {
                let mut text = first.flat()?;
                for (sign, doc) in rest {
                    text.push_str(&format!(" {sign} {}", doc.flat()?));
                }
                Some(text)
            }
            Self::Join { before, items, end } => match items.as_slice() {
                [only] if end.is_empty() => Some(all(before)? + &only.flat()?),
                _ => None,
            },
        }
    }

    fn width(&self) -> usize {
        self.flat().map_or(0, |text| text.chars().count())
    }
}

impl Item {
    fn flat(&self) -> Option<String> {
        let bare = self.before.is_empty() && self.behind.is_none();
        if bare { Some(self.doc.flat()? + self.separator) } else { None }
    }
}

/// Lines as they grow.
#[derive(Default)]
pub(super) struct Lines {
    out: String,
    /// Whether something stands in the text, or in the block that was opened last: a blank line stands between
    /// things only.
    begun: bool,
}

impl Lines {
    pub fn finish(self) -> String {
        self.out
    }

    /// Columns of the line so far.
    fn column(&self) -> usize {
        let start = self.out.rfind('\n').map_or(0, |n| n + 1);
        self.out[start..].chars().count()
    }

    fn indent(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn newline(&mut self, indent: usize) {
        self.out.push('\n');
        self.indent(indent);
    }

    fn blank(&mut self, blank: bool) {
        if blank && self.begun {
            self.out.push('\n');
        }
        self.begun = true;
    }

    /// Comments on lines of their own; the last line is ended.
    pub fn comments(&mut self, comments: &[Comment], indent: usize) {
        for comment in comments {
            self.blank(comment.blank);
            self.indent(indent);
            self.out.push_str(&comment.text);
            self.out.push('\n');
        }
    }

    /// An item on lines of its own; the last line is ended.
    pub fn item(&mut self, item: &Item, indent: usize) {
        self.comments(&item.before, indent);
        self.blank(item.blank);
        self.indent(indent);
        self.put(&item.doc, indent, item.separator.len());
        self.out.push_str(item.separator);
        if let Some(comment) = &item.behind {
            self.out.push_str("  ");
            self.out.push_str(comment);
        }
        self.out.push('\n');
    }

    /// A document where the line stands; `after` columns follow it.
    fn put(&mut self, doc: &Doc, indent: usize, after: usize) {
        if let Some(flat) = doc.flat()
            && self.column() + flat.chars().count() + after <= WIDTH
        {
            self.out.push_str(&flat);
            return;
        }
        match doc {
            Doc::Text(text) => self.out.push_str(text),
            Doc::Row(docs) => {
                for (n, doc) in docs.iter().enumerate() {
                    let rest: usize = docs[n + 1..].iter().map(Doc::width).sum();
                    self.put(doc, indent, rest + after);
                }
            }
            Doc::Reads(reads) => {
                for (n, read) in reads.iter().enumerate() {
                    if n > 0 {
                        self.out.push(',');
                        self.space_or_line(read, indent);
                    }
                    self.out.push_str(read);
                }
            }
            Doc::List { open, items, end, close } => {
                self.out.push_str(open);
                self.out.push('\n');
                self.list(items, indent + STEP);
                self.comments(end, indent + STEP);
                self.indent(indent);
                self.out.push_str(close);
            }
            Doc::Chain { first, rest } => {
                self.put(first, indent, 0);
                for (sign, doc) in rest {
                    self.newline(indent + STEP);
                    self.out.push_str(sign);
                    self.out.push(' ');
                    self.put(doc, indent + STEP, after);
                }
            }
            Doc::Join { before, items, end } => {
                for doc in before {
                    self.put(doc, indent, 1);
                }
                self.out.push_str("{\n");
                self.begun = false;
                for item in items {
                    self.item(item, indent + STEP);
                }
                self.comments(end, indent + STEP);
                self.indent(indent);
                self.out.push('}');
            }
        }
    }

    /// A space if what follows still fits, else the next line.
    fn space_or_line(&mut self, next: &str, indent: usize) {
        if self.column() + 1 + next.chars().count() < WIDTH {
            self.out.push(' ');
        } else {
            self.newline(indent + STEP);
        }
    }

    /// The items of a list on lines of their own; words without comments, as many on a line as fit.
    fn list(&mut self, items: &[Item], indent: usize) {
        self.begun = false;
        let words = items.iter().map(|i| i.flat().filter(|_| matches!(i.doc, Doc::Text(_))));
        match words.collect::<Option<Vec<String>>>().as_deref() {
            Some([first, rest @ ..]) => {
                self.indent(indent);
                self.out.push_str(first);
                for word in rest {
                    self.space_or_line(word, indent - STEP);
                    self.out.push_str(word);
                }
                self.out.push('\n');
            }
            _ => {
                for item in items {
                    self.item(item, indent);
                }
            }
        }
        self.begun = true;
    }
}
