//! From text to einsums: labels, monoid and the string of a contraction. The join is read in `join`.

use super::elsewhere;
use super::{Parser, Wrong, countable};
use crate::dtype::DType;
use crate::einsum::{Einsum, Label};
use crate::graph::TensorId;
use crate::monoid::Monoid;
use crate::text::lexer::Kind;

/// A label, with its extent if that is given.
type Written = (String, Option<usize>);

impl Parser {
    /// What follows the word `einsum`.
    pub(super) fn einsum(&mut self, name: &str) -> Result<TensorId, Wrong> {
        if let Kind::Quoted(spec) = self.peek().clone() {
            return self.contraction(name, &spec);
        }
        let dtype = self.dtype()?;
        let at = self.here();
        let (labels, rank) = self.labels()?;
        self.places.settings.push((String::new(), self.here()));
        let monoid = self.monoid(labels.len() > rank)?;
        if let Some(place) = self.places.settings.last_mut() {
            place.0 = monoid.name().into();
        }
        let labels = self.sized(labels)?;
        countable(&labels.iter().map(|l| l.extent).collect::<Vec<_>>(), at)?;
        let join = self.join(&labels, dtype, false)?;
        let einsum = Einsum { labels, rank, accesses: join.accesses, join: join.expr, monoid, dtype };
        let made = self.graph.einsum(name, einsum, &join.inputs);
        self.refused(made)
    }

    fn contraction(&mut self, name: &str, spec: &str) -> Result<TensorId, Wrong> {
        let at = self.here();
        self.places.string = Some(at + 1);
        self.at += 1;
        let mut operands = Vec::new();
        while !matches!(self.peek(), Kind::Newline | Kind::End) {
            operands.push(self.operand()?);
        }
        if let Some(n) = operands.iter().position(|&o| self.graph.ty(o).dtype == DType::Bool) {
            let why = "a contraction multiplies, which is not defined for bool; cast first";
            return Err(Wrong::new(self.places.operands[n], why));
        }
        let made = self.graph.contraction(name, spec, &operands);
        self.refused(made)
    }

    /// The labels, with their extents where given, and how many of them are the result's.
    fn labels(&mut self) -> Result<(Vec<Written>, usize), Wrong> {
        self.sign("(")?;
        let mut labels = Vec::new();
        let mut rank = None;
        loop {
            if self.takes(")") {
                let rank = rank.unwrap_or(labels.len());
                return Ok((labels, rank));
            }
            if rank.is_none() && self.takes("|") {
                rank = Some(labels.len());
                continue;
            }
            if !labels.is_empty() && rank != Some(labels.len()) && !self.takes(",") {
                return self.expected(if rank.is_none() { "`,`, `|` or `)`" } else { "`,` or `)`" });
            }
            let at = self.here();
            let name = self.name("a label")?;
            self.places.labels.push((name.clone(), at));
            let extent = if self.takes(":") { Some(self.size()?) } else { None };
            labels.push((name, extent));
        }
    }

    /// Labels without an extent get that of the first axis that is read at the label alone.
    fn sized(&self, labels: Vec<Written>) -> Result<Vec<Label>, Wrong> {
        let sized = |(n, (name, extent)): (usize, Written)| {
            let extent = extent.or_else(|| self.extent_of(&name)).ok_or_else(|| {
                let why = format!("the extent of `{name}` is not given, and no axis is read at `{name}` alone");
                Wrong::new(self.places.labels[n].1, format!("{why}; write `{name}: 4`"))
            })?;
            Ok(Label::new(name, extent))
        };
        labels.into_iter().enumerate().map(sized).collect()
    }

    /// The extent of the first axis in the rest of the statement that is read at this label alone.
    fn extent_of(&self, label: &str) -> Option<usize> {
        let rest = &self.tokens[self.at..];
        let statement = rest.iter().take_while(|t| !matches!(t.kind, Kind::Newline | Kind::End));
        let tokens: Vec<&Kind> = statement.map(|t| &t.kind).collect();
        let reads = tokens.windows(2).enumerate().filter(|(_, pair)| *pair[1] == Kind::Sign("["));
        for (n, pair) in reads {
            let (Kind::Word(tensor) | Kind::Quoted(tensor)) = pair[0] else { continue };
            let Some(tensor) = self.graph.find(tensor) else { continue };
            let inside = tokens[n + 2..].split(|k| **k == Kind::Sign("]")).next().unwrap_or_default();
            let mut indices = inside.split(|k| **k == Kind::Sign(","));
            let alone = |index: &[&Kind]| matches!(index, [Kind::Word(w) | Kind::Quoted(w)] if w == label);
            if let Some(axis) = indices.position(alone)
                && let Some(&extent) = self.graph.ty(tensor).shape.get(axis)
            {
                return Some(extent);
            }
        }
        None
    }

    fn monoid(&mut self, folds: bool) -> Result<Monoid, Wrong> {
        if self.takes_word("map") {
            self.at -= usize::from(folds);
            return if folds { self.wrong("`map` folds nothing, but labels stand after `|`") } else { Ok(Monoid::Sum) };
        }
        if let Kind::Word(w) = self.peek()
            && let Some(monoid) = Monoid::OF_EINSUMS.into_iter().find(|m| m.name() == w)
        {
            self.at += 1;
            return Ok(monoid);
        }
        if let Kind::Word(w) = self.peek()
            && let Some(meant) = elsewhere::of(&elsewhere::FOLDS, w)
        {
            return self.wrong(format!("expected how to fold, found `{w}`; it is {meant}"));
        }
        let all = Monoid::OF_EINSUMS.map(Monoid::name).into_iter().chain(["map"]);
        self.expected_word("how to fold: map, sum, max, min, prod, moments or softmax", all)
    }
}
