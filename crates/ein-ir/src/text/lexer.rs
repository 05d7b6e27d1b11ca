//! From characters to tokens.

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A bare word.
    Word(String),
    /// A word in quotes.
    Quoted(String),
    /// Digits; no integer of the language needs more than 64 bits.
    Integer(u64),
    /// A number with a point or an exponent.
    Float(f64),
    /// A sign.
    Sign(&'static str),
    /// The end of a statement.
    Newline,
    /// The end of the text.
    End,
}

impl Kind {
    /// The token in a message.
    pub fn show(&self) -> String {
        match self {
            Self::Word(w) => format!("`{w}`"),
            Self::Quoted(w) => format!("{w:?}"),
            Self::Integer(n) => format!("`{n}`"),
            Self::Float(x) => format!("`{x:?}`"),
            Self::Sign(s) => format!("`{s}`"),
            Self::Newline => "the end of the line".into(),
            Self::End => "the end of the text".into(),
        }
    }
}

/// A token and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: Kind,
    /// The byte where it starts.
    pub at: usize,
    /// The byte where it ends.
    pub end: usize,
    /// The bracket around it, as a token.
    pub inside: Option<usize>,
}

/// What a text is made of.
#[derive(Debug, Default)]
pub(super) struct Lexed {
    /// The tokens, `End` last.
    pub tokens: Vec<Token>,
    /// Comments in order: where each starts and ends, its `#` included.
    pub comments: Vec<(usize, usize)>,
    /// Brackets that nothing closes, as tokens.
    pub open: Vec<usize>,
}

/// Longest first, so that `<=` is not `<` and `=`.
const SIGNS: [&str; 29] = [
    "||", "&&", "<<", ">>", "<=", ">=", "==", "!=", "(", ")", "[", "]", "{", "}", "<", ">", "=", "!", ":", ";", ",",
    "|", "&", "^", "+", "-", "*", "/", "%",
];

/// Characters that come with a copied text, and what they stand for here.
const LOOKALIKES: [(&str, &str); 10] = [
    ("'`\u{2018}\u{2019}\u{201c}\u{201d}\u{201e}", "\""),
    ("\u{d7}\u{b7}\u{22c5}", "*"),
    ("\u{2212}\u{2013}\u{2014}", "-"),
    ("\u{f7}", "/"),
    ("\u{2264}", "<="),
    ("\u{2265}", ">="),
    ("\u{2260}", "!="),
    ("\u{2227}", "&&"),
    ("\u{2228}", "||"),
    ("\u{ac}~", "!"),
];

/// The tokens of a text; or the byte where it stops making sense, and why.
pub(super) fn lex(text: &str) -> Result<Lexed, (usize, String)> {
    let Lexed { mut tokens, mut comments, mut open } = Lexed::default();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let start = at;
        let rest = &text[at..];
        let inside = open.last().copied();
        let kind = if c == '\n' {
            at += 1;
            if !open.is_empty() {
                continue;
            }
            Kind::Newline
        } else if c.is_whitespace() || (c == '\u{feff}' && at == 0) {
            at += c.len_utf8();
            continue;
        } else if c == '#' {
            at += rest.find('\n').unwrap_or(rest.len());
            comments.push((start, at));
            continue;
        } else if c == '"' {
            let (word, length) = quoted(rest).map_err(|(offset, why)| (start + offset, why))?;
            at += length;
            Kind::Quoted(word)
        } else if is_word_start(c) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            at += length;
            Kind::Word(rest[..length].into())
        } else if c.is_ascii_digit() {
            let (kind, length) = number(rest).map_err(|why| (start, why))?;
            at += length;
            kind
        } else if c == '$' {
            at += 1;
            Kind::Sign("$")
        } else if let Some(sign) = SIGNS.into_iter().find(|s| rest.starts_with(s)) {
            match sign {
                "(" | "[" | "{" => open.push(tokens.len()),
                ")" | "]" | "}" => drop(open.pop()),
                _ => {}
            }
            at += sign.len();
            Kind::Sign(sign)
        } else {
            return Err((start, meaningless(c)));
        };
        tokens.push(Token { kind, at: start, end: at, inside });
    }
    tokens.push(Token { kind: Kind::End, at: text.len(), end: text.len(), inside: open.last().copied() });
    Ok(Lexed { tokens, comments, open })
}

/// What is said of a character that starts no token.
fn meaningless(c: char) -> String {
    let shown =
        if c.is_alphanumeric() || c.is_ascii_graphic() { c.to_string() } else { c.escape_default().to_string() };
    let hint = match LOOKALIKES.iter().find(|(all, _)| all.contains(c)) {
        Some((_, meant)) => format!("; write `{meant}`"),
        None if c.is_alphabetic() => "; a name with other letters than a to z is written in quotes".into(),
        None => String::new(),
    };
    format!("`{shown}` has no meaning here{hint}")
}

/// Whether a bare word may start with this.
pub(super) fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether a bare word may go on with this.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// The number at the start of `rest` and its length.
fn number(rest: &str) -> Result<(Kind, usize), String> {
    let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    let mut float = false;
    if rest[length..].starts_with('.') && digits(length + 1) > 0 {
        length += 1 + digits(length + 1);
        float = true;
    }
    if rest[length..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            length += 1 + sign + exponent;
            float = true;
        }
    }
    let word = &rest[..length];
    let kind = if float {
        Kind::Float(word.parse().map_err(|_| format!("`{word}` is not a number"))?)
    } else {
        Kind::Integer(word.parse().map_err(|_| format!("{word} does not fit in 64 bits"))?)
    };
    Ok((kind, length))
}

/// The quoted word at the start of `rest` and its length with the quotes.
fn quoted(rest: &str) -> Result<(String, usize), (usize, String)> {
    let mut word = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((word, at + 1)),
            '\n' => break,
            '\\' => word.push(match chars.next() {
                Some((_, '"')) => '"',
                Some((_, '\\')) => '\\',
                Some((_, 'n')) => '\n',
                Some((_, 't')) => '\t',
                Some((_, 'r')) => '\r',
                Some((_, 'u')) => {
                    let hex: String = chars.by_ref().map(|(_, c)| c).take_while(|&c| c != '}').collect();
                    let code = hex.strip_prefix('{').and_then(|h| u32::from_str_radix(h, 16).ok());
                    code.and_then(char::from_u32)
                        .ok_or_else(|| (at, "`\\u` wants a character in braces, as in `\\u{7f}`".to_string()))?
                }
                _ => return Err((at, "a backslash goes before one of `\"`, `\\`, `n`, `t`, `r`, `u{…}`".into())),
            }),
            other => word.push(other),
        }
    }
    Err((0, "the quote is not closed on its line".into()))
}
