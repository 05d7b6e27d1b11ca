//! How partial results combine.

use crate::dtype::DType;
use crate::region::Region;

/// A commutative way to combine partial results, with an identity.
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
    /// Fields (max, sum, acc) of attention: max and sum lack the last axis. Finishes to `acc / sum`.
    Attend,
}

/// One field of a stored value: which axes of the result it has, and its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name in text forms: `value`, `max`, `sum`, `acc`, `count`, `mean`, `m2`.
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
    /// Every monoid.
    pub const ALL: [Monoid; 7] =
        [Self::Sum, Self::Max, Self::Min, Self::Prod, Self::Moments, Self::SoftMax, Self::Attend];

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
            Self::Prod => "prod",
            Self::Moments => "moments",
            Self::SoftMax => "softmax",
            Self::Attend => "attend",
        }
    }

    /// The monoid with this name.
    pub fn parse(name: &str) -> Option<Monoid> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// The extent of the last axis that finishing adds, if it adds one.
    pub fn stacked(self) -> Option<usize> {
        match self {
            Self::Moments | Self::SoftMax => Some(2),
            Self::Sum | Self::Max | Self::Min | Self::Prod | Self::Attend => None,
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
        };
        Form { fields }
    }

    /// Whether the pending and the finished value are stored and mean the same.
    pub fn is_plain(self) -> bool {
        match self {
            Self::Sum | Self::Max | Self::Min | Self::Prod => true,
            Self::Moments | Self::SoftMax | Self::Attend => false,
        }
    }
}
