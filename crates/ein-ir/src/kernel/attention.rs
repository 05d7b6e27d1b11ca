//! Scaled dot-product attention.

use super::{Definition, Setting, Settings, Signature};
use crate::dtype::DType;
use crate::einsum::Affine;
use crate::graph::TensorType;
use crate::monoid::Monoid;
use crate::reference::{Column, EvalError, Operand, scale};
use crate::region::{Interval, Region, strides};
use crate::scalar;
use crate::spec::{AxisMap, Band, OperandSpec, Role, Spec, Work, affine, label};

/// `out[b,h,s,e] = Σ_t softmax_t(cap(scale · Σ_d q[b,h,s,d] k[b,h/g,t,d]) + mask[b,h,s,t]) v[b,h/g,t,e]`.
///
/// Operands: q `[b,h,s,d]`, k `[b,kv,t,d]`, v `[b,kv,t,e]`; when `mask`, an additive mask `[b|1, h|1, s|1, t]`;
/// when `own`, a key `[b,kv,s,d]` and a value `[b,kv,s,e]` of every query, which it reads beside the others; when
/// `packed`, offsets `[n]` (`i64` or `i32`). Query head `h` reads key/value head `h / (heads / kv_heads)`.
/// `cap(x) = softcap · tanh(x / softcap)`, or `x` without one. A query whose keys are all masked gives 0, as in
/// `PyTorch`. Labels in order: b, h, s, e | t, d, and n when packed.
///
/// Packed sequences stand one after the other along both s and t (`flash_attn_varlen`): sequence `i` begins at
/// `offsets[i]`, and a query reads keys of its own sequence only. What follows the last offset is a sequence too, so
/// that the capacity may exceed what is used.
///
/// With `own`, k and v are a cache and the queries are one new token each: none is copied to stand beside the other. Of
/// a cut t, the block of the first key reads the own ones too. They are not counted as work, being one key of many.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Batch b.
    pub batch: usize,
    /// Query heads h.
    pub heads: usize,
    /// Key/value heads kv; divides `heads`.
    pub kv_heads: usize,
    /// Queries s.
    pub queries: usize,
    /// Keys t.
    pub keys: usize,
    /// Size d of a query and of a key.
    pub dim: usize,
    /// Size e of a value.
    pub value_dim: usize,
    /// Query `s` reads keys `t <= s + keys - queries` only.
    pub causal: bool,
    /// Query `s` reads the last so many of the keys that `causal` leaves it; needs `causal`.
    pub window: Option<usize>,
    /// The bits of the `f64` beyond which scores do not grow.
    pub softcap: Option<u64>,
    /// Shape of the mask operand, if there is one.
    pub mask: Option<Vec<usize>>,
    /// Number of offsets, if sequences are packed; needs `queries == keys`.
    pub packed: Option<usize>,
    /// Whether every query has a key and a value of its own; neither `causal` nor `packed` then.
    pub own: bool,
    /// The bits of the `f64` scale.
    pub scale: u64,
    /// Type of q, k, v and the result.
    pub dtype: DType,
}

impl Attention {
    /// Plain attention of these sizes (`[batch, heads, kv_heads, queries, keys, dim, value_dim]`): not causal, no
    /// mask, scale one over the root of `dim`.
    pub fn new(sizes: [usize; 7], dtype: DType) -> Self {
        let [batch, heads, kv_heads, queries, keys, dim, value_dim] = sizes;
        let scale = (1.0 / (dim as f64).sqrt()).to_bits();
        Self {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            dim,
            value_dim,
            causal: false,
            window: None,
            softcap: None,
            mask: None,
            packed: None,
            own: false,
            scale,
            dtype,
        }
    }

    /// Query heads that share one key/value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The scale of the scores.
    pub fn scale(&self) -> f64 {
        f64::from_bits(self.scale)
    }

    /// A score after the cap.
    pub fn capped(&self, score: f64) -> f64 {
        match self.softcap {
            None => score,
            Some(bits) => f64::from_bits(bits) * (score / f64::from_bits(bits)).tanh(),
        }
    }

    /// Which keys a query sees by its position: the band of `causal` and `window`.
    pub fn band(&self) -> Option<Band> {
        let offset = self.keys as i64 - self.queries as i64;
        self.causal.then_some(Band { key: 4, query: 2, offset, window: self.window })
    }

    /// The keys of `keys` that a query sees by its position; packed offsets aside.
    pub fn seen(&self, query: usize, keys: Interval) -> Interval {
        self.band().map_or(keys, |band| band.seen(Interval::new(query, query + 1), keys))
    }

    /// Position of the queries' own keys among the operands; their values follow.
    pub fn own_operand(&self) -> usize {
        3 + usize::from(self.mask.is_some())
    }

    /// Position of the offsets among the operands.
    pub fn offsets_operand(&self) -> usize {
        3 + usize::from(self.mask.is_some())
    }

    /// The packed sequence that a position lies in, given the offsets.
    pub fn sequence(offsets: &[i64], position: usize) -> usize {
        offsets.partition_point(|&o| o <= position as i64)
    }
}

impl Definition for Attention {
    const NAME: &'static str = "attention";

    fn read(operands: &[&TensorType], settings: &mut Settings) -> Result<Self, String> {
        let shapes: Vec<&[usize]> = operands.iter().map(|t| t.shape.as_slice()).collect();
        let causal = settings.flag("causal")?;
        let window = settings.size("window")?;
        let softcap = settings.float("softcap")?;
        let packed = settings.flag("packed")?;
        let own = settings.flag("own")?;
        let scale = settings.float("scale")?;
        let (&[q, k, v], rest) = shapes.split_first_chunk::<3>().ok_or_else(|| {
            let found = shapes.len();
            format!("attention takes q, k, v, perhaps a mask and, if packed, offsets; not {found} tensors")
        })?;
        let rest = if own { rest.split_last_chunk::<2>().map(|(rest, _)| rest) } else { Some(rest) };
        let rest = rest.ok_or("attention with `own` takes each query's key and value as its last operands")?;
        let (&[batch, heads, queries, dim], &[_, kv_heads, keys, _], &[_, _, _, value_dim]) = (q, k, v) else {
            return Err(format!("attention takes q, k and v of 4 axes each, not {q:?}, {k:?}, {v:?}"));
        };
        let (mask, offsets) = match (rest, packed) {
            ([], false) => (None, None),
            ([mask], false) => (Some(mask.to_vec()), None),
            ([[n]], true) => (None, Some(*n)),
            ([mask, [n]], true) => (Some(mask.to_vec()), Some(*n)),
            (_, true) => return Err("packed attention takes offsets of one axis as its last operand".into()),
            (_, false) => {
                return Err(format!("attention takes q, k, v and perhaps a mask, not {} tensors", shapes.len()));
            }
        };
        let plain = Self::new([batch, heads, kv_heads, queries, keys, dim, value_dim], operands[0].dtype);
        let scale = scale.unwrap_or(plain.scale);
        Ok(Self { causal, window, softcap, mask, packed: offsets, own, scale, ..plain })
    }

    fn settings(&self) -> Vec<(&'static str, Setting)> {
        let mut settings = Vec::new();
        if self.causal {
            settings.push(("causal", Setting::Flag));
        }
        settings.extend(self.window.map(|w| ("window", Setting::Size(w))));
        settings.extend(self.softcap.map(|c| ("softcap", Setting::Float(c))));
        if self.packed.is_some() {
            settings.push(("packed", Setting::Flag));
        }
        if self.own {
            settings.push(("own", Setting::Flag));
        }
        settings.push(("scale", Setting::Float(self.scale)));
        settings
    }

    fn fault(&self) -> Option<String> {
        if self.kv_heads == 0 || self.heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Some(format!("{} query heads are not a multiple of {} key/value heads", self.heads, self.kv_heads));
        }
        if !self.dtype.is_float() {
            return Some(format!("attention needs a float type, not {}", self.dtype));
        }
        if self.dim == 0 {
            return Some("attention needs queries and keys of at least one element".into());
        }
        if self.window.is_some() && !self.causal {
            return Some("a window counts back from a query's own key, so it needs `causal`".into());
        }
        if self.window == Some(0) {
            return Some("a window of 0 keys leaves nothing to attend to; 1 is a query's own key".into());
        }
        if let Some(cap) = self.softcap.map(f64::from_bits)
            && !(cap > 0.0 && cap.is_finite())
        {
            return Some(format!("a softcap is a positive number, not {cap}"));
        }
        if self.packed.is_some() && self.queries != self.keys {
            let (s, t) = (self.queries, self.keys);
            return Some(format!("packed sequences have as many queries as keys, not {s} and {t}"));
        }
        if self.packed == Some(0) {
            return Some("packed sequences need at least one offset, that of the first".into());
        }
        if self.own && (self.causal || self.packed.is_some()) {
            return Some(
                "queries with keys of their own read all others: `own` goes with neither `causal` nor `packed`".into(),
            );
        }
        if self.own && self.keys == 0 {
            return Some("queries with keys of their own need at least one other key".into());
        }
        let full = [self.batch, self.heads, self.queries, self.keys];
        let fits = |mask: &Vec<usize>| {
            mask.len() == 4 && mask[3] == self.keys && mask.iter().zip(full).all(|(&m, n)| m == n || m == 1)
        };
        let mask = self.mask.as_ref().filter(|m| !fits(m))?;
        Some(format!("a mask of shape {mask:?} does not fit {full:?}; axes but the last may be 1 long"))
    }

    fn signature(&self) -> Signature {
        let only = vec![self.dtype];
        let mut operands = vec![
            (only.clone(), vec![self.batch, self.heads, self.queries, self.dim]),
            (only.clone(), vec![self.batch, self.kv_heads, self.keys, self.dim]),
            (only.clone(), vec![self.batch, self.kv_heads, self.keys, self.value_dim]),
        ];
        operands.extend(self.mask.as_ref().map(|mask| (only.clone(), mask.clone())));
        if self.own {
            let of = |features| (only.clone(), vec![self.batch, self.kv_heads, self.queries, features]);
            operands.extend([of(self.dim), of(self.value_dim)]);
        }
        operands.extend(self.packed.map(|n| (vec![DType::I64, DType::I32], vec![n])));
        let result = TensorType::new(self.dtype, [self.batch, self.heads, self.queries, self.value_dim]);
        Signature { operands, result }
    }

    fn spec(&self) -> Spec {
        let (b, h, s, e, t, d) = (0, 1, 2, 3, 4, 5);
        let kv_head = AxisMap::Div { label: h, by: self.group() };
        let one = |l: usize| AxisMap::Affine(Affine::label(l));
        let key = self.band().map_or(one(t), AxisMap::Band);
        let mut operands = vec![
            affine(&[b, h, s, d]),
            vec![one(b), kv_head.clone(), key.clone(), one(d)],
            vec![one(b), kv_head.clone(), key.clone(), one(e)],
        ];
        if let Some(mask) = &self.mask {
            let full = [self.batch, self.heads, self.queries, self.keys];
            let axes = mask.iter().zip([one(b), one(h), one(s), key]).zip(full);
            let axis = |((&extent, axis), full)| {
                if extent == full { axis } else { AxisMap::Affine(Affine::constant(0)) }
            };
            operands.push(axes.map(axis).collect());
        }
        if self.own {
            operands.push(vec![one(b), kv_head.clone(), one(s), one(d)]);
            operands.push(vec![one(b), kv_head, one(s), one(e)]);
        }
        let mut labels = vec![
            label("b", self.batch, Role::Free),
            label("h", self.heads, Role::Free),
            label("s", self.queries, Role::Free),
            label("e", self.value_dim, Role::Whole),
            label("t", self.keys, Role::Fold),
            label("d", self.dim, Role::Whole),
        ];
        labels[h].prefer = Some(self.group());
        let mut free_labels = vec![e, d];
        if let Some(n) = self.packed {
            free_labels.push(labels.len());
            operands.push(vec![one(labels.len())]);
            labels.push(label("n", n, Role::Whole));
        }
        Spec {
            labels,
            rank: 4,
            operands: operands.into_iter().map(|axes| OperandSpec { axes, by_index: false }).collect(),
            monoid: Monoid::Attend,
            stacked: None,
            dtype: self.dtype,
            // Per (b, h, s, t): 2 d for the scores and 2 e for the values.
            work: Work {
                operations_per_point: 2 * (self.dim + self.value_dim),
                band: self.band(),
                free_labels,
                contraction: true,
                dtype: self.dtype,
            },
            operand_dtypes: Vec::new(),
        }
    }

    /// Max, sum and acc of the keys of the block. A key whose score is minus infinity is not visible: it adds
    /// nothing, whatever its value holds.
    fn block(&self, labels: &Region, operands: &[Option<Operand>], idle: bool) -> Result<Vec<Column>, EvalError> {
        let [b, h, s, e, t, d] = labels.0[..6] else { panic!("attention has six labels or seven") };
        let rows = b.len() * h.len() * s.len();
        let mut tops = vec![f64::NEG_INFINITY; rows];
        let mut sums = vec![0.0; rows];
        let mut accs = vec![0.0; rows * e.len()];
        if idle {
            return Ok(vec![Column::F(tops), Column::F(sums), Column::F(accs)]);
        }
        let floats = self.own_operand() + if self.own { 2 } else { 0 };
        let given: Vec<Floats> = operands[..floats].iter().flatten().map(Floats::new).collect();
        let (q, k, v) = (&given[0], &given[1], &given[2]);
        // Keys and values of the queries' own, in the block of the first key.
        let own = (self.own && t.lo == 0).then(|| (&given[self.own_operand()], &given[self.own_operand() + 1]));
        let offsets: Option<Vec<i64>> = self.packed.map(|n| {
            let offsets = operands[self.offsets_operand()].as_ref().expect("offsets of a block that reads");
            (0..n).map(|i| offsets.data.scalar(i).to_i64()).collect()
        });
        let together = |query: usize, key: usize| {
            offsets.as_ref().is_none_or(|o| Self::sequence(o, query) == Self::sequence(o, key))
        };
        let mut scores = Vec::new();
        let mut row = 0;
        for batch in b.lo..b.hi {
            for head in h.lo..h.hi {
                let kv = head / self.group();
                for query in s.lo..s.hi {
                    let seen = self.seen(query, t);
                    scores.clear();
                    for key in seen.lo..seen.hi {
                        if !together(query, key) {
                            scores.push(f64::NEG_INFINITY);
                            continue;
                        }
                        let (x, y) = (q.at([batch, head, query, d.lo]), k.at([batch, kv, key, d.lo]));
                        let dot: f64 = (0..d.len()).map(|i| q.values[x + i] * k.values[y + i]).sum();
                        let mut score = self.capped(self.scale() * dot);
                        if let (Some(mask), Some(shape)) = (given.get(3), &self.mask) {
                            let pick = |axis: usize, i: usize| if shape[axis] == 1 { 0 } else { i };
                            let at = mask.at([pick(0, batch), pick(1, head), pick(2, query), pick(3, key)]);
                            score += mask.values[at];
                        }
                        scores.push(score);
                    }
                    let own = own.map(|(k, v)| {
                        let (x, y) = (q.at([batch, head, query, d.lo]), k.at([batch, kv, query, d.lo]));
                        let dot: f64 = (0..d.len()).map(|i| q.values[x + i] * k.values[y + i]).sum();
                        (self.capped(self.scale() * dot), &v.values[v.at([batch, kv, query, e.lo])..])
                    });
                    scores.extend(own.map(|own| own.0));
                    let top = scores.iter().copied().fold(f64::NEG_INFINITY, scalar::max);
                    let acc = &mut accs[row * e.len()..(row + 1) * e.len()];
                    let of = |key: usize| &v.values[v.at([batch, kv, key, e.lo])..];
                    let values = (seen.lo..seen.hi).map(of).chain(own.map(|own| own.1));
                    for (values, &score) in values.zip(&scores) {
                        if score == f64::NEG_INFINITY {
                            continue;
                        }
                        let weight = scale(score, top);
                        sums[row] += weight;
                        for (acc, value) in acc.iter_mut().zip(values) {
                            *acc += weight * value;
                        }
                    }
                    tops[row] = top;
                    row += 1;
                }
            }
        }
        Ok(vec![Column::F(tops), Column::F(sums), Column::F(accs)])
    }
}

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
