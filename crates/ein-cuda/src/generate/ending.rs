//! What happens to a fold at its end, at one point of its result.

use super::body::{Body, Reader, Side};
use super::launch::Arguments;
use super::state::State;
use super::stored::Stored;
use super::strided::Strided;
use super::types::{store, value};
use crate::program::Place;
use ein_ir::dtype::DType;
use ein_ir::region::Region;
use ein_run::Cause;
use std::fmt::Write;

/// What happens to a fold at its end.
#[derive(Clone, Copy)]
pub(crate) enum After<'a> {
    /// Its fields are stored.
    Pending,
    /// It is finished in a type and stored.
    Finished(DType),
    /// It is finished in a type, and the body, whose first labels are the result's, is given that; its value is stored.
    Map(DType, &'a Body),
}

/// The end of a fold over a block.
pub(crate) struct Ending<'a> {
    state: State,
    /// The type in which it is finished; none where it stays pending.
    finished: Option<DType>,
    /// The map that follows, converted to the result's type.
    pub(crate) body: Option<Body>,
    /// The labels of what is stored.
    pub(crate) labels: Region,
    result: &'a Stored,
    /// The walker that is the result.
    steps: Vec<i64>,
    base: i64,
}

impl<'a> Ending<'a> {
    /// Of a block whose result has the labels `out`.
    pub(crate) fn new(state: State, after: After<'_>, out: &Region, result: &'a Stored) -> Result<Self, Cause> {
        let (finished, body) = match after {
            After::Pending => (None, None),
            After::Finished(dtype) => (Some(dtype), None),
            After::Map(dtype, body) => {
                let mut body = body.clone();
                body.cast(result.dtype(0));
                (Some(dtype), Some(body))
            }
        };
        let labels = body.as_ref().map_or(out, |b| &b.labels).clone();
        let Strided { base, steps } = Strided::result(labels.rank(), &labels, &result.region)?;
        Ok(Self { state, finished, body, labels, result, steps, base })
    }

    /// Steps along its labels of everything that walks: the map's walkers, then the result.
    pub(crate) fn walkers(&self) -> Vec<Vec<i64>> {
        let mut walkers = self.body.as_ref().map_or_else(Vec::new, Body::walkers);
        walkers.push(self.steps.clone());
        walkers
    }

    /// Declares its pointers.
    pub(crate) fn bind(&self, arguments: &mut Arguments) -> Bound<'_> {
        let stacked = self.elements("s").len();
        let places: Vec<(Place, DType)> = match self.finished {
            None => {
                (0..self.state.fields().len()).map(|n| (self.result.at(n, self.base), self.result.dtype(n))).collect()
            }
            Some(_) if self.body.is_some() => vec![(self.result.at(0, self.base), self.result.dtype(0))],
            Some(_) => vec![(self.result.at(0, self.base * stacked as i64), self.result.dtype(0))],
        };
        let targets = places.iter().map(|&(place, dtype)| arguments.written(place, dtype)).collect();
        Bound { ending: self, reader: self.body.as_ref().map(|b| b.reader(arguments)), targets, place: places[0].0 }
    }

    /// The finished elements of the state `s`.
    fn elements(&self, s: &str) -> Vec<String> {
        self.finished.map_or_else(Vec::new, |dtype| self.state.finished(s, dtype))
    }
}

/// The end of a fold whose operands have names in a kernel.
pub(crate) struct Bound<'a> {
    ending: &'a Ending<'a>,
    /// Of the map that follows.
    pub(crate) reader: Option<Reader<'a>>,
    targets: Vec<String>,
    place: Place,
}

impl Bound<'_> {
    /// The elements of its walkers.
    pub(crate) fn elements(&self) -> Vec<Option<(Place, DType)>> {
        let mut elements = self.reader.as_ref().map_or_else(Vec::new, Reader::elements);
        elements.push(Some((self.place, self.ending.result.dtype(0))));
        elements
    }

    /// The name of the pointer to the result.
    pub(crate) fn target(&self) -> &str {
        &self.targets[0]
    }

    /// Statements that declare the finished elements of the state `s` as `e0`, `e1`.
    pub(crate) fn finished(&self, s: &str) -> String {
        let dtype = self.ending.finished.unwrap_or(DType::F32);
        let one = |(n, e): (usize, String)| format!("const {} e{n} = {e};\n", value(dtype));
        self.ending.elements(s).into_iter().enumerate().map(one).collect()
    }

    /// Statements that end the fold in the state `s` where walker `w` is at `at(w)`, at one point.
    pub(crate) fn store(&self, s: &str, at: &dyn Fn(usize) -> String) -> String {
        let Ending { state, finished, body, result, .. } = self.ending;
        let Some(dtype) = *finished else { return state.pending(s, result, &self.targets, &at(0)) };
        let own = result.dtype(0);
        let target = self.target();
        let mut text = self.finished(s);
        if let (Some(body), Some(reader)) = (body, &self.reader) {
            let count = self.elements().len();
            let side = Side { lanes: 1, steps: vec![0; count], words: vec![1; count] };
            text += &reader.loads(&side, "z", &[], at);
            text += &reader.rows(&side, "z", None, at, &|n| format!("e{n}"));
            let _ = writeln!(text, "{target}[{}] = {};", at(count - 1), store(own, &format!("r{}", body.value)));
        } else {
            let all = self.ending.elements(s).len();
            for n in 0..all {
                // What is finished in another type than it is stored in is a cast, which is a map.
                debug_assert_eq!(dtype, own, "finished as it is stored");
                let _ = writeln!(text, "{target}[{} * {all} + {n}] = {};", at(0), store(own, &format!("e{n}")));
            }
        }
        text
    }
}
