//! From text to views and kernels.

use super::elsewhere;
use super::{Parser, Wrong, bounded, countable};
use crate::graph::{TensorId, TensorType};
use crate::kernel::{Kernel, Settings, Written};
use crate::text::lexer::Kind;
use crate::text::nearest::{hint_or, nearest};
use crate::view::View;

/// The words that start an operation that is no kernel.
const OTHERS: [&str; 9] = ["einsum", "map", "reshape", "permute", "slice", "broadcast", "concat", "pad", "roll"];

impl Parser {
    pub(super) fn operation(&mut self, name: &str) -> Result<TensorId, Wrong> {
        let at = self.here();
        self.places.operation = at;
        let Kind::Word(operation) = self.next() else {
            return Err(Wrong::new(at, format!("expected an operation: {}", operations())));
        };
        match operation.as_str() {
            "einsum" => self.einsum(name),
            "map" => self.elementwise(name),
            "concat" => {
                let parts = self.operands()?;
                self.places.settings.push(("axis".into(), self.here()));
                self.word("axis")?;
                let axis = self.size()?;
                let total = parts.iter().filter_map(|&p| self.graph.ty(p).shape.get(axis)).map(|&n| n as i128).sum();
                bounded(total, at)?;
                let made = self.graph.view(name, View::Concat { axis }, &parts);
                self.refused(made)
            }
            "reshape" | "permute" | "slice" | "broadcast" | "pad" | "roll" => {
                let input = self.operand()?;
                let view = self.view(&operation)?;
                let made = self.graph.view(name, view, &[input]);
                self.refused(made)
            }
            kernel if Kernel::NAMES.contains(&kernel) => self.kernel(name, kernel, at),
            other => {
                let all = OTHERS.into_iter().chain(Kernel::NAMES.iter().copied());
                let meant = match elsewhere::of(&elsewhere::OPERATIONS, other) {
                    Some(here) => format!("; it is {here}"),
                    None => hint_or(other, all, &format!("there are {}", operations())),
                };
                Err(Wrong::new(at, format!("there is no operation `{other}`{meant}")))
            }
        }
    }

    /// What follows the tensor of a view.
    fn view(&mut self, operation: &str) -> Result<View, Wrong> {
        Ok(match operation {
            "reshape" => View::Reshape { shape: self.shape()? },
            "broadcast" => View::Broadcast { shape: self.shape()? },
            "permute" => View::Permute { axes: self.list(Self::size)? },
            "roll" => View::Roll { shifts: self.list(Self::size)? },
            "pad" => {
                let margins = self.list(|p| {
                    let before = p.size()?;
                    p.sign(":")?;
                    Ok((before, p.size()?))
                })?;
                self.word("value")?;
                let value = self.float()?;
                let (before, after) = margins.into_iter().unzip();
                View::Pad { before, after, value }
            }
            _ => {
                let ranges = self.list(Self::range)?;
                View::Slice {
                    starts: ranges.iter().map(|r| r.0).collect(),
                    steps: ranges.iter().map(|r| r.1).collect(),
                    shape: ranges.iter().map(|r| r.2).collect(),
                }
            }
        })
    }

    /// Start, step and number of indices of `start:stop:step`.
    fn range(&mut self) -> Result<(usize, i64, usize), Wrong> {
        let at = self.here();
        let start = self.size()?;
        self.sign(":")?;
        let stop = self.integer()?;
        let step_at = self.here();
        let step = if self.takes(":") { self.integer()? } else { 1 };
        let (from, to, by) = (start as i128, i128::from(stop), i128::from(step));
        bounded(from.abs() + to.abs() + by.abs(), at)?;
        if by == 0 {
            return Err(Wrong::new(step_at + 1, "a step of 0 never reaches the stop"));
        }
        let count = if by > 0 { (to - from + by - 1).div_euclid(by) } else { (from - to - by - 1).div_euclid(-by) };
        Ok((start, step, count.max(0) as usize))
    }

    /// The operands and settings of a kernel.
    fn kernel(&mut self, name: &str, operation: &str, at: usize) -> Result<TensorId, Wrong> {
        let operands = self.operands()?;
        let mut written = Vec::new();
        while let Kind::Word(word) = self.peek().clone() {
            self.places.settings.push((word.clone(), self.here()));
            self.at += 1;
            let value = match self.peek() {
                Kind::Integer(n) => {
                    let n = *n;
                    self.at += 1;
                    Written::Integer(n)
                }
                Kind::Float(_) | Kind::Sign("-") => Written::Float(self.float()?),
                Kind::Word(w) if matches!(w.as_str(), "inf" | "nan" | "bits") => Written::Float(self.float()?),
                _ => Written::Nothing,
            };
            written.push((word, value));
        }
        let types: Vec<TensorType> = operands.iter().map(|&o| self.graph.ty(o).clone()).collect();
        let mut settings = Settings::new(written);
        let read = Kernel::read(operation, &types.iter().collect::<Vec<_>>(), &mut settings);
        let place = |word: &str| self.places.settings.iter().rev().find(|(w, _)| w == word).map_or(at, |p| p.1);
        let kernel = read.map_err(|reason| {
            // A setting that is missing may be one that is misspelt.
            let known = settings.known();
            let near = settings.left().find_map(|word| Some((word, nearest(word, known.iter().copied())?)));
            match near {
                Some((word, meant)) if !known.contains(&word) => {
                    let why = format!("`{operation}` has no setting `{word}`; did you mean `{meant}`?");
                    Wrong::new(place(word), why)
                }
                _ => Wrong::new(self.places.mentioned(&reason).unwrap_or(at), reason),
            }
        })?;
        if let Some((word, known)) = settings.unknown() {
            let all = settings.known();
            let message = if all.contains(&word) {
                format!("`{word}` is given twice")
            } else {
                let meant = hint_or(word, all.iter().copied(), &known);
                format!("`{operation}` has no setting `{word}`{meant}")
            };
            return Err(Wrong::new(place(word), message));
        }
        if kernel.fault().is_none() {
            countable(&kernel.signature().result.shape, at)?;
        }
        let made = self.graph.kernel(name, kernel, &operands);
        self.refused(made)
    }
}

/// The words that start an operation.
fn operations() -> String {
    let all: Vec<&str> = OTHERS.into_iter().chain(Kernel::NAMES.iter().copied()).collect();
    let (last, rest) = all.split_last().expect("there are operations");
    format!("{} and {last}", rest.join(", "))
}
