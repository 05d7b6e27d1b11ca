//! What stands after a kernel's operands in text: words, each with or without a value.

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// A word alone.
    Flag,
    /// A size.
    Size(usize),
    /// A float, by its bits.
    Float(u64),
}

impl Setting {
    /// The axis of a kernel that works along one, which is not written where it is the first.
    pub(crate) fn axis(axis: usize) -> Option<(&'static str, Self)> {
        (axis != 0).then_some(("axis", Self::Size(axis)))
    }
}

/// A value as it was written: which kind it is, the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Nothing follows the word.
    Nothing,
    /// Digits: a size, or a float without a point.
    Integer(u64),
    /// Any other number, by the bits of its `f64`.
    Float(u64),
}

/// The settings that were written and are not yet taken.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    written: Vec<(String, Written)>,
    known: Vec<&'static str>,
}

impl Settings {
    pub(crate) fn new(written: Vec<(String, Written)>) -> Self {
        Self { written, known: Vec::new() }
    }

    fn take(&mut self, name: &'static str) -> Option<Written> {
        self.known.push(name);
        let at = self.written.iter().position(|(n, _)| n == name)?;
        Some(self.written.remove(at).1)
    }

    /// Whether a word stands there alone.
    pub fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(false),
            Some(Written::Nothing) => Ok(true),
            Some(Written::Integer(_) | Written::Float(_)) => Err(format!("`{name}` takes no value")),
        }
    }

    /// The size after a word.
    pub fn size(&mut self, name: &'static str) -> Result<Option<usize>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Written::Integer(n)) if n < 1 << 56 => Ok(Some(n as usize)),
            Some(_) => Err(format!("`{name}` takes a size, such as `{name} 4`")),
        }
    }

    /// The number after a word, by its bits.
    pub fn float(&mut self, name: &'static str) -> Result<Option<u64>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Written::Integer(n)) => Ok(Some((n as f64).to_bits())),
            Some(Written::Float(bits)) => Ok(Some(bits)),
            Some(Written::Nothing) => Err(format!("`{name}` takes a number, such as `{name} 0.5`")),
        }
    }

    /// Which of some words stands there alone; the first of them if none does.
    pub fn one_of(&mut self, names: &[&'static str]) -> Result<usize, String> {
        let mut found = None;
        for (n, name) in names.iter().enumerate() {
            if self.flag(name)? && found.replace(n).is_some() {
                return Err(format!("one of {} may be given", names.join(", ")));
            }
        }
        Ok(found.unwrap_or(0))
    }

    /// The words that were asked for, so far.
    pub(crate) fn known(&self) -> &[&'static str] {
        &self.known
    }

    /// The words that nobody asked for.
    pub(crate) fn left(&self) -> impl Iterator<Item = &str> {
        self.written.iter().map(|w| w.0.as_str())
    }

    /// What is left over, with the words that would have been taken.
    pub(crate) fn unknown(&self) -> Option<(&str, String)> {
        let (name, _) = self.written.first()?;
        let known =
            if self.known.is_empty() { "it has none".into() } else { format!("it has {}", self.known.join(", ")) };
        Some((name, known))
    }
}
