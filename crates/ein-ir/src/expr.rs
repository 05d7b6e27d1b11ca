//! Typed scalar expressions: what a join does with one element of each operand.
//!
//! An expression is a list of rows; a row names only earlier rows; the last row is the value.

use crate::dtype::DType;

/// A constant. Floats are kept by their bits, so that expressions can be compared and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// A float, by the bits of its `f64`.
    Float(u64),
    /// An integer or, as 0 or 1, a bool.
    Int(i64),
}

impl Literal {
    /// A float constant.
    pub fn float(value: f64) -> Self {
        Self::Float(value.to_bits())
    }
}

/// Functions of one argument. All but the last row are of floats and round to the argument's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Unary {
    Exp,
    Exp2,
    /// `exp(x) - 1`, exact near 0.
    Expm1,
    Log,
    Log2,
    Log10,
    /// `log(1 + x)`, exact near 0.
    Log1p,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    /// `1 - erf(x)`, exact where that is small.
    Erfc,
    /// The inverse of the error function.
    Erfinv,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    Floor,
    Ceil,
    /// To the nearest integer, halves to the even one.
    Round,
    Trunc,
    /// Of numbers, not of bools.
    Neg,
    /// Of numbers, not of bools.
    Abs,
    /// Of bools.
    Not,
}

impl Unary {
    /// Every function.
    pub const ALL: [Unary; 32] = [
        Self::Exp,
        Self::Exp2,
        Self::Expm1,
        Self::Log,
        Self::Log2,
        Self::Log10,
        Self::Log1p,
        Self::Sqrt,
        Self::Rsqrt,
        Self::Sin,
        Self::Cos,
        Self::Tan,
        Self::Asin,
        Self::Acos,
        Self::Atan,
        Self::Sinh,
        Self::Cosh,
        Self::Tanh,
        Self::Asinh,
        Self::Acosh,
        Self::Atanh,
        Self::Erf,
        Self::Erfc,
        Self::Erfinv,
        Self::Sigmoid,
        Self::Floor,
        Self::Ceil,
        Self::Round,
        Self::Trunc,
        Self::Neg,
        Self::Abs,
        Self::Not,
    ];

    /// The name in text forms and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exp => "exp",
            Self::Exp2 => "exp2",
            Self::Expm1 => "expm1",
            Self::Log => "log",
            Self::Log2 => "log2",
            Self::Log10 => "log10",
            Self::Log1p => "log1p",
            Self::Sqrt => "sqrt",
            Self::Rsqrt => "rsqrt",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tan => "tan",
            Self::Asin => "asin",
            Self::Acos => "acos",
            Self::Atan => "atan",
            Self::Sinh => "sinh",
            Self::Cosh => "cosh",
            Self::Tanh => "tanh",
            Self::Asinh => "asinh",
            Self::Acosh => "acosh",
            Self::Atanh => "atanh",
            Self::Erf => "erf",
            Self::Erfc => "erfc",
            Self::Erfinv => "erfinv",
            Self::Sigmoid => "sigmoid",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Round => "round",
            Self::Trunc => "trunc",
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Not => "not",
        }
    }

    /// The function with this name.
    pub fn parse(name: &str) -> Option<Unary> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }

    /// Whether the function is defined for a type.
    fn takes(self, dtype: DType) -> bool {
        match self {
            Self::Not => dtype == DType::Bool,
            Self::Neg | Self::Abs => dtype != DType::Bool,
            Self::Exp
            | Self::Exp2
            | Self::Expm1
            | Self::Log
            | Self::Log2
            | Self::Log10
            | Self::Log1p
            | Self::Sqrt
            | Self::Rsqrt
            | Self::Sin
            | Self::Cos
            | Self::Tan
            | Self::Asin
            | Self::Acos
            | Self::Atan
            | Self::Sinh
            | Self::Cosh
            | Self::Tanh
            | Self::Asinh
            | Self::Acosh
            | Self::Atanh
            | Self::Erf
            | Self::Erfc
            | Self::Erfinv
            | Self::Sigmoid
            | Self::Floor
            | Self::Ceil
            | Self::Round
            | Self::Trunc => dtype.is_float(),
        }
    }
}

/// Functions of two arguments of one type. `Max` and `Min` pass a NaN on. Comparisons give `Bool`.
/// `Div` and `Rem` of integers round towards minus infinity (as Python and `torch.floor_divide`) and are 0
/// when the divisor is 0. `Rem` of floats has the sign of the divisor (as `torch.remainder`). `Pow` of
/// integers wraps; a negative power is 0 unless the base is 1 or -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    /// The remainder with the sign of the dividend, as `torch.fmod`; of integers 0 when the divisor is 0.
    Fmod,
    Pow,
    Max,
    Min,
    /// The angle of the point (second, first), of floats.
    Atan2,
    /// The first with the sign of the second, of floats; zeros and NaN have signs too.
    Copysign,
    Lt,
    Le,
    Eq,
    Ne,
    /// Of bools.
    And,
    /// Of bools.
    Or,
    /// Bit by bit, of integers.
    BitAnd,
    /// Bit by bit, of integers.
    BitOr,
    /// Bit by bit, of integers.
    BitXor,
    /// Of integers. Shifted by the type's width or more, or by a negative number, there is 0.
    Shl,
    /// Of integers, keeping the sign. Shifted by the type's width or more, or by a negative number, only the sign
    /// is left: 0 or -1.
    Shr,
}

impl Binary {
    /// Every function.
    pub const ALL: [Binary; 22] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Rem,
        Self::Fmod,
        Self::Pow,
        Self::Max,
        Self::Min,
        Self::Atan2,
        Self::Copysign,
        Self::Lt,
        Self::Le,
        Self::Eq,
        Self::Ne,
        Self::And,
        Self::Or,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::Shl,
        Self::Shr,
    ];

    /// Whether the function is defined for a type.
    fn takes(self, dtype: DType) -> bool {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Rem | Self::Fmod | Self::Pow => dtype != DType::Bool,
            Self::Max | Self::Min | Self::Lt | Self::Le | Self::Eq | Self::Ne => true,
            Self::Atan2 | Self::Copysign => dtype.is_float(),
            Self::And | Self::Or => dtype == DType::Bool,
            Self::BitAnd | Self::BitOr | Self::BitXor | Self::Shl | Self::Shr => {
                !dtype.is_float() && dtype != DType::Bool
            }
        }
    }

    /// The type of the value for arguments of a type.
    fn gives(self, dtype: DType) -> DType {
        match self {
            Self::Lt | Self::Le | Self::Eq | Self::Ne => DType::Bool,
            Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Rem
            | Self::Fmod
            | Self::Pow
            | Self::Max
            | Self::Min
            | Self::Atan2
            | Self::Copysign
            | Self::And
            | Self::Or
            | Self::BitAnd
            | Self::BitOr
            | Self::BitXor
            | Self::Shl
            | Self::Shr => dtype,
        }
    }
}

/// A row's number.
pub type RowId = usize;

/// One row of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// The element of operand `n` that the access selects.
    Operand(usize),
    /// A constant of the row's type.
    Const(Literal),
    /// The index of label `n`, an `I64` in *global* coordinates.
    Index(usize),
    /// A function of one row.
    Unary(Unary, RowId),
    /// A function of two rows of equal type.
    Binary(Binary, RowId, RowId),
    /// `condition ? yes : no`.
    Select(RowId, RowId, RowId),
    /// Conversion to the row's type: float to integer truncates and saturates, NaN gives 0; to bool is `!= 0`.
    Cast(RowId),
}

impl Row {
    /// The rows that it names, in order.
    pub fn arguments(&self) -> Arguments {
        match *self {
            Self::Operand(_) | Self::Const(_) | Self::Index(_) => Arguments([0; 3], 0),
            Self::Unary(_, a) | Self::Cast(a) => Arguments([a, 0, 0], 1),
            Self::Binary(_, a, b) => Arguments([a, b, 0], 2),
            Self::Select(c, yes, no) => Arguments([c, yes, no], 3),
        }
    }

    /// The same, the rows that it names being those of other numbers.
    #[must_use]
    pub fn renamed(self, name: impl Fn(RowId) -> RowId) -> Self {
        match self {
            Self::Operand(_) | Self::Const(_) | Self::Index(_) => self,
            Self::Unary(function, a) => Self::Unary(function, name(a)),
            Self::Binary(function, a, b) => Self::Binary(function, name(a), name(b)),
            Self::Select(c, yes, no) => Self::Select(name(c), name(yes), name(no)),
            Self::Cast(a) => Self::Cast(name(a)),
        }
    }
}

/// The rows that a row names: a list that is no memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments([RowId; 3], usize);

impl std::ops::Deref for Arguments {
    type Target = [RowId];
    fn deref(&self) -> &[RowId] {
        &self.0[..self.1]
    }
}

impl IntoIterator for Arguments {
    type Item = RowId;
    type IntoIter = std::iter::Take<std::array::IntoIter<RowId, 3>>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().take(self.1)
    }
}

/// A typed scalar expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Expr {
    rows: Vec<(Row, DType)>,
}

/// Why an expression is not well typed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The two sides have different types.
    #[error("`{operation}` takes two values of one type, not {left} and {right}; cast one of them")]
    Mixed {
        /// The function.
        operation: String,
        /// Left type.
        left: DType,
        /// Right type.
        right: DType,
    },
    /// The function is not defined on the type.
    #[error("`{operation}` is not defined for {dtype}")]
    Undefined {
        /// The function.
        operation: String,
        /// The argument's type.
        dtype: DType,
    },
    /// A row names a later or missing row.
    #[error("row {row} names row {names}, which does not come before it")]
    Forward {
        /// The row.
        row: usize,
        /// What it names.
        names: usize,
    },
}

impl Expr {
    /// An expression without rows; push some.
    pub fn new() -> Self {
        Self::default()
    }

    /// The expression that is operand 0.
    pub fn operand(dtype: DType) -> Self {
        let mut e = Self::new();
        e.push_operand(0, dtype);
        e
    }

    /// The product of `n >= 1` operands of one type: the join of a contraction.
    pub fn product(n: usize, dtype: DType) -> Self {
        let mut e = Self::new();
        let mut value = e.push_operand(0, dtype);
        for operand in 1..n {
            let next = e.push_operand(operand, dtype);
            value = e.binary(Binary::Mul, value, next).expect("one numeric type");
        }
        e
    }

    /// The rows with their types, in order.
    pub fn rows(&self) -> &[(Row, DType)] {
        &self.rows
    }

    /// The type of the value.
    pub fn dtype(&self) -> DType {
        self.rows.last().expect("an expression has a row").1
    }

    /// The type of one row.
    pub fn dtype_of(&self, row: RowId) -> DType {
        self.rows[row].1
    }

    fn push(&mut self, row: Row, dtype: DType) -> RowId {
        self.rows.push((row, dtype));
        self.rows.len() - 1
    }

    /// A row that reads operand `n`, whose tensor has type `dtype`.
    pub fn push_operand(&mut self, n: usize, dtype: DType) -> RowId {
        self.push(Row::Operand(n), dtype)
    }

    /// A constant.
    pub fn constant(&mut self, value: Literal, dtype: DType) -> RowId {
        self.push(Row::Const(value), dtype)
    }

    /// A float constant of a float type.
    pub fn float(&mut self, value: f64, dtype: DType) -> RowId {
        self.constant(Literal::float(value), dtype)
    }

    /// The index of a label.
    pub fn index(&mut self, label: usize) -> RowId {
        self.push(Row::Index(label), DType::I64)
    }

    /// A conversion.
    pub fn cast(&mut self, row: RowId, dtype: DType) -> RowId {
        if self.rows[row].1 == dtype { row } else { self.push(Row::Cast(row), dtype) }
    }

    /// A function of one row.
    pub fn unary(&mut self, function: Unary, row: RowId) -> Result<RowId, ExprError> {
        let dtype = self.check(row)?;
        if !function.takes(dtype) {
            return Err(ExprError::Undefined { operation: function.name().into(), dtype });
        }
        Ok(self.push(Row::Unary(function, row), dtype))
    }

    /// A function of two rows of one type.
    pub fn binary(&mut self, function: Binary, left: RowId, right: RowId) -> Result<RowId, ExprError> {
        let (l, r) = (self.check(left)?, self.check(right)?);
        let operation = format!("{function:?}").to_lowercase();
        if l != r {
            return Err(ExprError::Mixed { operation, left: l, right: r });
        }
        if !function.takes(l) {
            return Err(ExprError::Undefined { operation, dtype: l });
        }
        Ok(self.push(Row::Binary(function, left, right), function.gives(l)))
    }

    /// `condition ? yes : no`.
    pub fn select(&mut self, condition: RowId, yes: RowId, no: RowId) -> Result<RowId, ExprError> {
        let (c, y, n) = (self.check(condition)?, self.check(yes)?, self.check(no)?);
        if c != DType::Bool {
            return Err(ExprError::Undefined { operation: "select".into(), dtype: c });
        }
        if y != n {
            return Err(ExprError::Mixed { operation: "select".into(), left: y, right: n });
        }
        Ok(self.push(Row::Select(condition, yes, no), y))
    }

    fn check(&self, row: RowId) -> Result<DType, ExprError> {
        self.rows.get(row).map(|r| r.1).ok_or(ExprError::Forward { row: self.rows.len(), names: row })
    }

    /// The number of operands read: one more than the highest operand named.
    pub fn operands(&self) -> usize {
        self.rows
            .iter()
            .filter_map(|(r, _)| if let Row::Operand(n) = r { Some(n + 1) } else { None })
            .max()
            .unwrap_or(0)
    }

    /// Arithmetic operations of one evaluation, the unit in which work is counted.
    pub fn operations(&self) -> usize {
        self.rows.iter().filter(|(r, _)| matches!(r, Row::Unary(..) | Row::Binary(..) | Row::Select(..))).count()
    }

    /// Whether the value is the plain product of operands 0 and 1 (a contraction's join).
    pub fn is_product(&self) -> bool {
        matches!(
            self.rows.as_slice(),
            [(Row::Operand(a), _), (Row::Operand(b), _), (Row::Binary(Binary::Mul, 0, 1), _)]
                if (*a, *b) == (0, 1) || (*a, *b) == (1, 0)
        )
    }

    /// Whether the value is a product of two rows of floats, which a fold that sums takes unrounded.
    pub fn ends_in_product(&self) -> bool {
        matches!(self.rows.last(), Some((Row::Binary(Binary::Mul, ..), dtype)) if dtype.is_float())
    }

    /// Whether the value is a product of two or more operands and nothing else but conversions: with a sum,
    /// a contraction.
    pub fn multiplies_operands(&self) -> bool {
        let only = |r: &Row| matches!(r, Row::Operand(_) | Row::Cast(_) | Row::Binary(Binary::Mul, ..));
        let reads = self.rows.iter().filter(|(r, _)| matches!(r, Row::Operand(_))).count();
        reads >= 2 && self.rows.iter().all(|(r, _)| only(r)) && self.operations() > 0
    }
}
