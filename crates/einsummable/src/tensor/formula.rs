//! Scalar expressions written as formulas: `x * (x / 6.0 + 0.5).clamp(0.0, 1.0)`.

use ein_ir::dtype::DType;
use ein_ir::expr::{Binary, Expr, ExprError, Literal, Row, RowId, Unary};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

/// An expression while a formula writes it. The first row that is not well typed is remembered.
#[derive(Default)]
pub(crate) struct Formula {
    expr: RefCell<Expr>,
    wrong: RefCell<Option<ExprError>>,
}

/// A row of a formula.
#[derive(Clone, Copy)]
pub(crate) struct Value<'f> {
    formula: &'f Formula,
    row: RowId,
}

/// What stands beside a value: another one, or a number of its type.
pub(crate) trait Term<'f> {
    fn beside(self, value: Value<'f>) -> Value<'f>;
}

impl<'f> Term<'f> for Value<'f> {
    fn beside(self, _: Value<'f>) -> Value<'f> {
        self
    }
}

impl<'f> Term<'f> for f64 {
    fn beside(self, value: Value<'f>) -> Value<'f> {
        value.number(self)
    }
}

impl<'f> Term<'f> for i64 {
    fn beside(self, value: Value<'f>) -> Value<'f> {
        value.formula.constant(Literal::Int(self), value.dtype())
    }
}

impl Formula {
    /// A row that reads an operand.
    pub(crate) fn operand(&self, n: usize, dtype: DType) -> Value<'_> {
        let row = self.expr.borrow_mut().push_operand(n, dtype);
        Value { formula: self, row }
    }

    /// The index of a label.
    pub(crate) fn index(&self, label: usize) -> Value<'_> {
        let row = self.expr.borrow_mut().index(label);
        Value { formula: self, row }
    }

    /// A constant. Equal ones are one row.
    pub(crate) fn constant(&self, value: Literal, dtype: DType) -> Value<'_> {
        let mut expr = self.expr.borrow_mut();
        let known = expr.rows().iter().position(|r| *r == (Row::Const(value), dtype));
        Value { formula: self, row: known.unwrap_or_else(|| expr.constant(value, dtype)) }
    }

    /// A number of any type.
    pub(crate) fn number(&self, value: f64, dtype: DType) -> Value<'_> {
        let literal = if dtype.is_float() { Literal::float(value) } else { Literal::Int(value as i64) };
        self.constant(literal, dtype)
    }

    /// What was written.
    pub(crate) fn expr(self) -> Result<Expr, ExprError> {
        match self.wrong.into_inner() {
            Some(error) => Err(error),
            None => Ok(self.expr.into_inner()),
        }
    }

    /// The row, or where it is refused one that was there before.
    fn row(&self, made: Result<RowId, ExprError>, instead: RowId) -> Value<'_> {
        let row = made.unwrap_or_else(|error| {
            self.wrong.borrow_mut().get_or_insert(error);
            instead
        });
        Value { formula: self, row }
    }
}

impl<'f> Value<'f> {
    /// Its row.
    pub(crate) fn row(self) -> RowId {
        self.row
    }

    /// Its type.
    pub(crate) fn dtype(self) -> DType {
        self.formula.expr.borrow().dtype_of(self.row)
    }

    /// A number of its type.
    pub(crate) fn number(self, value: f64) -> Value<'f> {
        self.formula.number(value, self.dtype())
    }

    /// A conversion.
    pub(crate) fn cast(self, dtype: DType) -> Value<'f> {
        let row = self.formula.expr.borrow_mut().cast(self.row, dtype);
        Value { row, ..self }
    }

    /// A function of it.
    pub(crate) fn unary(self, function: Unary) -> Value<'f> {
        let made = self.formula.expr.borrow_mut().unary(function, self.row);
        self.formula.row(made, self.row)
    }

    /// A function of it and another.
    pub(crate) fn binary(self, function: Binary, other: impl Term<'f>) -> Value<'f> {
        let other = other.beside(self);
        let made = self.formula.expr.borrow_mut().binary(function, self.row, other.row);
        self.formula.row(made, self.row)
    }

    /// This bool chooses.
    pub(crate) fn select(self, yes: Value<'f>, no: impl Term<'f>) -> Value<'f> {
        let no = no.beside(yes);
        let made = self.formula.expr.borrow_mut().select(self.row, yes.row, no.row);
        self.formula.row(made, yes.row)
    }

    /// Whether it is a NaN; no number of another type is.
    pub(crate) fn is_nan(self) -> Value<'f> {
        self.ne(self)
    }

    /// At least `low`, then at most `high`.
    pub(crate) fn clamp(self, low: impl Term<'f>, high: impl Term<'f>) -> Value<'f> {
        self.max(low).min(high)
    }
}

macro_rules! methods {
    ($kind:ident: $($name:ident $function:ident),* $(,)?) => {
        impl<'f> Value<'f> {
            $(methods!(@$kind $name $function);)*
        }
    };
    (@unary $name:ident $function:ident) => {
        pub(crate) fn $name(self) -> Value<'f> {
            self.unary(Unary::$function)
        }
    };
    (@binary $name:ident $function:ident) => {
        pub(crate) fn $name(self, other: impl Term<'f>) -> Value<'f> {
            self.binary(Binary::$function, other)
        }
    };
    (@turned $name:ident $function:ident) => {
        pub(crate) fn $name(self, other: impl Term<'f>) -> Value<'f> {
            other.beside(self).binary(Binary::$function, self)
        }
    };
}

methods!(unary: abs Abs, exp Exp, exp2 Exp2, expm1 Expm1, log Log, log1p Log1p, sqrt Sqrt, tanh Tanh);
methods!(unary: sigmoid Sigmoid, erf Erf, cos Cos, floor Floor, trunc Trunc, round Round);
methods!(binary: max Max, min Min, lt Lt, le Le, eq Eq, ne Ne, fmod Fmod, pow Pow, copysign Copysign);
methods!(turned: gt Lt, ge Le);

macro_rules! operators {
    ($($operator:ident $method:ident $function:ident),* $(,)?) => {
        $(
            impl<'f, T: Term<'f>> $operator<T> for Value<'f> {
                type Output = Value<'f>;
                fn $method(self, other: T) -> Value<'f> {
                    self.binary(Binary::$function, other)
                }
            }
        )*
    };
    (numbers: $($operator:ident $method:ident),* $(,)?) => {
        $(
            impl<'f> $operator<Value<'f>> for f64 {
                type Output = Value<'f>;
                fn $method(self, other: Value<'f>) -> Value<'f> {
                    $operator::$method(self.beside(other), other)
                }
            }
        )*
    };
}

operators!(Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem, Shl shl Shl, Shr shr Shr, BitXor bitxor BitXor);
operators!(numbers: Add add, Sub sub, Mul mul, Div div);

impl<'f> Neg for Value<'f> {
    type Output = Value<'f>;
    fn neg(self) -> Value<'f> {
        self.unary(Unary::Neg)
    }
}

impl<'f> Not for Value<'f> {
    type Output = Value<'f>;
    fn not(self) -> Value<'f> {
        self.unary(Unary::Not)
    }
}

impl<'f, T: Term<'f>> BitAnd<T> for Value<'f> {
    type Output = Value<'f>;
    fn bitand(self, other: T) -> Value<'f> {
        let function = if self.dtype() == DType::Bool { Binary::And } else { Binary::BitAnd };
        self.binary(function, other)
    }
}

impl<'f, T: Term<'f>> BitOr<T> for Value<'f> {
    type Output = Value<'f>;
    fn bitor(self, other: T) -> Value<'f> {
        let function = if self.dtype() == DType::Bool { Binary::Or } else { Binary::BitOr };
        self.binary(function, other)
    }
}
