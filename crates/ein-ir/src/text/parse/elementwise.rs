//! From text to elementwise maps without labels: `z = map max(x + bias, 0.0)`.

use super::{Parser, Wrong, countable};
use crate::dtype::DType;
use crate::einsum::{Access, Affine, Einsum, Label};
use crate::graph::TensorId;
use crate::monoid::Monoid;
use crate::text::lexer::Kind;

impl Parser {
    /// What follows the word `map`: a value over tensors that stand alone, aligned at their last axes.
    pub(super) fn elementwise(&mut self, name: &str) -> Result<TensorId, Wrong> {
        let read = self.standing_alone();
        let shape = self.broadcast(&read)?;
        countable(&shape, self.places.operation)?;
        let labels: Vec<Label> = shape.iter().enumerate().map(|(n, &e)| Label::new(format!("i{n}"), e)).collect();
        let floats = read.iter().map(|&(tensor, _)| self.graph.ty(tensor).dtype).find(|d| d.is_float());
        let join = self.join(&labels, floats.unwrap_or(DType::F32), true)?;
        let dtype = join.expr.dtype();
        let rank = labels.len();
        let einsum = Einsum { labels, rank, accesses: join.accesses, join: join.expr, monoid: Monoid::Sum, dtype };
        let made = self.graph.einsum(name, einsum, &join.inputs);
        self.refused(made)
    }

    /// The tensors that the rest of the statement reads, and where each stands. Names of rows are none.
    fn standing_alone(&self) -> Vec<(TensorId, usize)> {
        let rest = &self.tokens[self.at..];
        let end = rest.iter().position(|t| matches!(t.kind, Kind::Newline | Kind::End)).unwrap_or(0);
        let named = |n: usize| match &rest[n].kind {
            Kind::Word(w) | Kind::Quoted(w) => Some(w.as_str()),
            _ => None,
        };
        let rows: Vec<&str> = (1..end).filter(|&n| named(n - 1) == Some("let")).filter_map(named).collect();
        let tensor = |n: usize| {
            let name = named(n).filter(|name| !rows.contains(name) && rest[n + 1].kind != Kind::Sign("("))?;
            Some((self.graph.find(name)?, rest[n].at))
        };
        (0..end).filter_map(tensor).collect()
    }

    /// The shape of an elementwise function of tensors: an axis of one element, or that is missing, is repeated.
    fn broadcast(&self, read: &[(TensorId, usize)]) -> Result<Vec<usize>, Wrong> {
        let shape_of = |tensor: TensorId| &self.graph.ty(tensor).shape;
        let rank = read.iter().map(|r| shape_of(r.0).len()).max().unwrap_or(0);
        let mut shape = vec![1; rank];
        for (n, &(tensor, at)) in read.iter().enumerate() {
            let own = shape_of(tensor);
            for (axis, &extent) in own.iter().enumerate() {
                let whole = &mut shape[rank - own.len() + axis];
                if *whole != extent && *whole != 1 && extent != 1 {
                    let names = |t: TensorId| format!("`{}` is {}", self.graph.node(t).name, self.graph.ty(t));
                    let all: Vec<String> = read[..=n].iter().map(|r| names(r.0)).collect();
                    let why = "counted from the last axis, extents must be equal or 1";
                    return Err(Wrong::new(at, format!("{}: {why}", all.join(", "))));
                }
                if *whole == 1 {
                    *whole = extent;
                }
            }
        }
        Ok(shape)
    }

    /// The access of a tensor that stands alone over these labels.
    pub(super) fn aligned(&self, tensor: TensorId, labels: &[Label]) -> Access {
        let shape = &self.graph.ty(tensor).shape;
        let first = labels.len() - shape.len();
        let axis = |(axis, &extent): (usize, &usize)| {
            let label = first + axis;
            if extent == labels[label].extent { Affine::label(label) } else { Affine::constant(0) }
        };
        Access { axes: shape.iter().enumerate().map(axis).collect() }
    }
}
