//! Kernels, unfused.

use super::fold::{Column, scale};
use super::{EvalError, Operand};
use crate::kernel::{Attention, Gather};
use crate::region::{Region, strides};
use crate::scalar::{self, Scalar};

/// An operand's elements as floats, with the position of an index.
struct Floats {
    values: Vec<f64>,
    strides: Vec<usize>,
    origin: Vec<usize>,
}

impl Floats {
    fn new(operand: &Operand) -> Self {
        Self {
            values: operand.data.to_f64(),
            strides: strides(&operand.region.shape()),
            origin: operand.region.origin(),
        }
    }

    fn at(&self, index: [usize; 4]) -> usize {
        (0..4).map(|a| (index[a] - self.origin[a]) * self.strides[a]).sum()
    }
}

/// Max, sum and acc of the keys of the block. A key whose score is minus infinity is not visible: it adds
/// nothing, whatever its value holds.
pub(super) fn attention(a: &Attention, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Vec<Column> {
    let [b, h, s, e, t, d] = labels.0[..] else { panic!("attention has six labels") };
    let rows = b.len() * h.len() * s.len();
    let mut tops = vec![f64::NEG_INFINITY; rows];
    let mut sums = vec![0.0; rows];
    let mut accs = vec![0.0; rows * e.len()];
    if idle {
        return vec![Column::F(tops), Column::F(sums), Column::F(accs)];
    }
    let given: Vec<Floats> = operands.iter().flatten().map(Floats::new).collect();
    let (q, k, v) = (&given[0], &given[1], &given[2]);
    let mut scores = Vec::new();
    let mut row = 0;
    for batch in b.lo..b.hi {
        for head in h.lo..h.hi {
            let kv = head / a.group();
            for query in s.lo..s.hi {
                let end = if a.causal { t.hi.min((query as i64 + 1 + a.offset()).max(0) as usize) } else { t.hi };
                scores.clear();
                for key in t.lo..end {
                    let (x, y) = (q.at([batch, head, query, d.lo]), k.at([batch, kv, key, d.lo]));
                    let dot: f64 = (0..d.len()).map(|i| q.values[x + i] * k.values[y + i]).sum();
                    let mut score = a.scale() * dot;
                    if let (Some(mask), Some(shape)) = (given.get(3), &a.mask) {
                        let pick = |axis: usize, i: usize| if shape[axis] == 1 { 0 } else { i };
                        score += mask.values[mask.at([pick(0, batch), pick(1, head), pick(2, query), pick(3, key)])];
                    }
                    scores.push(score);
                }
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, scalar::max);
                let acc = &mut accs[row * e.len()..(row + 1) * e.len()];
                for (key, &score) in (t.lo..end).zip(&scores) {
                    if score == f64::NEG_INFINITY {
                        continue;
                    }
                    let weight = scale(score, top);
                    sums[row] += weight;
                    let at = v.at([batch, kv, key, e.lo]);
                    for (acc, value) in acc.iter_mut().zip(&v.values[at..]) {
                        *acc += weight * value;
                    }
                }
                tops[row] = top;
                row += 1;
            }
        }
    }
    vec![Column::F(tops), Column::F(sums), Column::F(accs)]
}

/// The rows of the block's part of the table; 0 for ids that another part answers.
pub(super) fn gather(
    g: &Gather,
    labels: &Region,
    operands: &[Option<Operand>],
    idle: bool,
) -> Result<Vec<Column>, EvalError> {
    let n = g.ids.len();
    let (e, v) = (labels.0[n], labels.0[n + 1]);
    let tokens = Region(labels.0[..n].to_vec());
    let zero = Scalar::I(0).cast(g.dtype);
    let mut column = Column::full(zero, tokens.volume() * e.len());
    if idle {
        return Ok(vec![column]);
    }
    let given: Vec<&Operand> = operands.iter().flatten().collect();
    let (table, ids) = (given[0], given[1]);
    let own = ids.data.cut(&ids.region, &tokens);
    let width = table.region.0[1].len();
    for token in 0..own.len() {
        let id = own.scalar(token).to_i64();
        if id < 0 || id >= g.rows as i64 {
            return Err(EvalError::Index { operation: "gather".into(), id, rows: g.rows });
        }
        let id = id as usize;
        if id < v.lo || id >= v.hi {
            continue;
        }
        let from = (id - table.region.0[0].lo) * width + e.lo - table.region.0[1].lo;
        for k in 0..e.len() {
            match (&mut column, table.data.scalar(from + k)) {
                (Column::F(c), x) => c[token * e.len() + k] = x.to_f64(),
                (Column::I(c), x) => c[token * e.len() + k] = x.to_i64(),
            }
        }
    }
    Ok(vec![column])
}
