//! How partial results combine.

use std::cmp::Ordering;
use std::fmt;

use crate::dtype::DType;
use crate::region::Region;
use crate::scalar::Scalar;

/// An associative way to combine partial results, with an identity. All but [`Monoid::is_ordered`] ones are commutative.
///
/// A result that is still *pending* is stored as the monoid's fields; `finish` turns fields into the
/// result. For monoids of one field the pending and the finished value are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Monoid {
    /// `a + b`, identity 0.
    Sum,
    /// The larger, identity minus infinity; NaN wins.
    Max,
    /// The smaller, identity plus infinity; NaN wins.
    Min,
    /// `a * b`, identity 1.
    Prod,
    /// Fields (count, mean, M2) of Chan, Golub and `LeVeque` (1983). Finishes to a last axis of two:
    /// the mean, then the biased variance M2 / count.
    Moments,
    /// Fields (max, sum of `exp(x - max)`), Milakov and Gimelshein (2018). Finishes to a last axis of
    /// two: the max, then the sum.
    SoftMax,
    /// Fields (max, sum, acc) of attention: max and sum lack the last axis. Finishes to `acc / sum`;
    /// to 0 where the sum is 0, for then no key was seen.
    Attend,
    /// Exactly one partial holds an element, the others hold nothing, which is stored as bits that are all 0. The
    /// bits are combined by "or", so that a minus zero or a NaN comes through as it is.
    Once,
    /// Fields (value, index), both with a last axis of k: the first k elements in sorted order, merged. Finishes to
    /// the values or to the indices.
    Top(Top),
    /// Fields (scale, shift): the map `h -> scale * h + shift`. The later map is applied to what the earlier one gives, so
    /// that partials are folded in the order of the axis. Finishes to the shift, which is what becomes of 0.
    /// A shift of exactly 0 stays 0 under any later scale, which may have overflowed.
    Affine,
}

/// Which elements come first in a sorted order, and what is given of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Top {
    /// How many.
    pub k: usize,
    /// Whether the largest come first.
    pub largest: bool,
    /// Whether their indices are given instead of their values.
    pub indices: bool,
    /// Type of the values.
    pub of: DType,
}

impl Top {
    /// The index of an entry that stands for no element.
    pub const NOTHING: i64 = -1;

    /// The order of two (value, index): NaN is larger than anything, of equal values the lower index comes first, and
    /// what stands for no element comes last.
    pub fn order(&self, a: (Scalar, i64), b: (Scalar, i64)) -> Ordering {
        let rising = match (a.0, b.0) {
            (Scalar::I(a), Scalar::I(b)) => a.cmp(&b),
            (a, b) => {
                let (a, b) = (a.to_f64(), b.to_f64());
                a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
        };
        let by_value = if self.largest { rising.reverse() } else { rising };
        let nothing = (a.1 == Self::NOTHING).cmp(&(b.1 == Self::NOTHING));
        nothing.then(by_value).then(a.1.cmp(&b.1))
    }
}

/// One field of a stored value: which axes of the result it has, and its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name in text forms: `value`, `max`, `sum`, `acc`, `count`, `mean`, `m2`, `index`, `scale`, `shift`.
    pub name: &'static str,
    /// Axes of the result, in order.
    pub axes: Vec<usize>,
    /// Element type.
    pub dtype: DType,
}

/// How a value is stored: its fields, one after the other, each row-major over its axes, each
/// starting at a multiple of 8 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The fields in storage order.
    pub fields: Vec<Field>,
}

impl Form {
    /// A finished value: one field over all axes.
    pub fn finished(dtype: DType, rank: usize) -> Self {
        Self { fields: vec![Field { name: "value", axes: (0..rank).collect(), dtype }] }
    }

    /// Bytes of every field over `region`, in order, without the rounding of storage.
    pub fn field_bytes(&self, region: &Region) -> Vec<usize> {
        self.fields
            .iter()
            .map(|f| f.axes.iter().map(|&a| region.0[a].len()).product::<usize>() * f.dtype.bytes())
            .collect()
    }

    /// Bytes that a transfer of `region` moves: the fields without the rounding of storage.
    pub fn bytes(&self, region: &Region) -> usize {
        self.field_bytes(region).iter().sum()
    }

    /// Byte offset of every field in storage, and the total with rounding.
    pub fn layout(&self, region: &Region) -> (Vec<usize>, usize) {
        let mut at = 0;
        let offsets = self
            .field_bytes(region)
            .iter()
            .map(|bytes| {
                let here = at;
                at += bytes.next_multiple_of(8);
                here
            })
            .collect();
        (offsets, at)
    }
}

impl Monoid {
    /// Every monoid without parameters.
    pub const ALL: [Monoid; 9] = [
        Self::Sum,
        Self::Max,
        Self::Min,
        Self::Prod,
        Self::Moments,
        Self::SoftMax,
        Self::Attend,
        Self::Once,
        Self::Affine,
    ];

    /// The monoids that an einsum may fold with.
    pub const OF_EINSUMS: [Monoid; 6] = [Self::Sum, Self::Max, Self::Min, Self::Prod, Self::Moments, Self::SoftMax];

    /// The name in text forms, parameters left out.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::Prod => "prod",
            Self::Moments => "moments",
            Self::SoftMax => "softmax",
            Self::Attend => "attend",
            Self::Once => "once",
            Self::Top(_) => "top",
            Self::Affine => "affine",
        }
    }

    /// The monoid that is displayed so: its name, and the parameters of `top` after dots.
    pub fn parse(text: &str) -> Option<Monoid> {
        if let Some(monoid) = Self::ALL.into_iter().find(|m| m.name() == text) {
            return Some(monoid);
        }
        let words: Vec<&str> = text.split('.').collect();
        let &["top", k, order, gives, of] = words.as_slice() else { return None };
        let which =
            |word: &str, yes: &str, no: &str| if word == yes { Some(true) } else { (word == no).then_some(false) };
        Some(Self::Top(Top {
            k: k.parse().ok()?,
            largest: which(order, "largest", "smallest")?,
            indices: which(gives, "indices", "values")?,
            of: DType::parse(of)?,
        }))
    }

    /// The extent of the last axis that finishing adds, if it adds one.
    pub fn stacked(self) -> Option<usize> {
        match self {
            Self::Moments | Self::SoftMax => Some(2),
            Self::Top(top) => Some(top.k),
            Self::Sum | Self::Max | Self::Min | Self::Prod | Self::Attend | Self::Once | Self::Affine => None,
        }
    }

    /// How a pending result of `rank` axes (the stacked one included) and type `dtype` is stored.
    /// `wide` keeps partials of 16-bit types in their accumulator's type.
    ///
    /// Statistics and attention accumulate in the accumulator's type whatever `wide` says.
    pub fn pending(self, dtype: DType, rank: usize, wide: bool) -> Form {
        let all: Vec<usize> = (0..rank).collect();
        let fewer: Vec<usize> = (0..rank.saturating_sub(1)).collect();
        let acc = dtype.accumulator();
        let field = |name, axes: &Vec<usize>, dtype| Field { name, axes: axes.clone(), dtype };
        let fields = match self {
            Self::Sum | Self::Max | Self::Min | Self::Prod => {
                vec![field("value", &all, if wide { acc } else { dtype })]
            }
            Self::Moments => {
                vec![field("count", &fewer, acc), field("mean", &fewer, acc), field("m2", &fewer, acc)]
            }
            Self::SoftMax => vec![field("max", &fewer, acc), field("sum", &fewer, acc)],
            Self::Attend => vec![
                field("max", &fewer, acc),
                field("sum", &fewer, acc),
                field("acc", &all, if wide { acc } else { dtype }),
            ],
            Self::Once => vec![field("value", &all, dtype)],
            Self::Top(top) => vec![field("value", &all, top.of), field("index", &all, DType::I64)],
            Self::Affine => {
                let dtype = if wide { acc } else { dtype };
                vec![field("scale", &all, dtype), field("shift", &all, dtype)]
            }
        };
        Form { fields }
    }

    /// Whether the pending and the finished value are stored and mean the same.
    pub fn is_plain(self) -> bool {
        match self {
            Self::Sum | Self::Max | Self::Min | Self::Prod | Self::Once => true,
            Self::Moments | Self::SoftMax | Self::Attend | Self::Top(_) | Self::Affine => false,
        }
    }

    /// Whether it is not commutative: partials are folded in the order of the axis along which they are parts, and only
    /// neighbours with each other.
    pub fn is_ordered(self) -> bool {
        match self {
            Self::Affine => true,
            Self::Sum
            | Self::Max
            | Self::Min
            | Self::Prod
            | Self::Moments
            | Self::SoftMax
            | Self::Attend
            | Self::Once
            | Self::Top(_) => false,
        }
    }
}

impl fmt::Display for Monoid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Self::Top(top) = self {
            let order = if top.largest { "largest" } else { "smallest" };
            let gives = if top.indices { "indices" } else { "values" };
            write!(f, ".{}.{order}.{gives}.{}", top.k, top.of)?;
        }
        Ok(())
    }
}
