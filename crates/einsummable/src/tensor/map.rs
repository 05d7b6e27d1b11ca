//! Elementwise methods. Each is one map: an einsum without folded labels.

use super::promote::{result_type, with_scalar};
use super::{Operand, Tensor, TensorError};
use crate::expression::ending;
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr, ExprError, Literal, RowId, Unary};
use ein_ir::monoid::Monoid;

/// The shape that all broadcast to, aligned at the right.
pub(crate) fn broadcast(operation: &'static str, shapes: &[&[usize]]) -> Result<Vec<usize>, TensorError> {
    let mut out: Vec<usize> = Vec::new();
    for shape in shapes {
        let rank = out.len().max(shape.len());
        let at = |s: &[usize], n: usize| if n + s.len() >= rank { s[n + s.len() - rank] } else { 1 };
        let mut next = Vec::with_capacity(rank);
        for n in 0..rank {
            let (l, r) = (at(&out, n), at(shape, n));
            if l != r && l != 1 && r != 1 {
                let (left, right, axis) = (out.clone(), shape.to_vec(), rank - n);
                return Err(TensorError::Broadcast { operation, left, right, axis, l, r });
            }
            next.push(if l == 1 { r } else { l });
        }
        out = next;
    }
    Ok(out)
}

/// How a tensor of shape `shape` is read when it is broadcast to labels `first..` of these extents.
pub(crate) fn aligned(shape: &[usize], labels: &[usize], first: usize) -> Access {
    let lead = labels.len() - shape.len();
    let axes = shape.iter().enumerate().map(|(n, &extent)| {
        if extent == 1 && labels[lead + n] != 1 { Affine::constant(0) } else { Affine::label(first + lead + n) }
    });
    Access { axes: axes.collect() }
}

/// Label names for axes without names of their own.
pub(crate) fn letters(extents: &[usize]) -> Vec<Label> {
    let name = |n: usize| match u8::try_from(n) {
        Ok(n) if n < 26 => char::from(b'a' + n).to_string(),
        _ => format!("x{n}"),
    };
    extents.iter().enumerate().map(|(n, &e)| Label::new(name(n), e)).collect()
}

/// The map that applies the expression which `f` builds from one row per operand, with broadcasting.
pub(crate) fn map(
    method: &'static str,
    operands: &[&Tensor],
    f: impl FnOnce(&mut Expr, &[RowId]) -> Result<RowId, ExprError>,
) -> Result<Tensor, TensorError> {
    let mut shapes: Vec<&[usize]> = Vec::new();
    for tensor in operands {
        shapes.push(&tensor.ty()?.shape);
    }
    let shape = broadcast(method, &shapes)?;
    let accesses = shapes.iter().map(|s| aligned(s, &shape, 0)).collect();
    map_over(method, &shape, accesses, operands, f)
}

/// A map over a given shape with given accesses.
pub(crate) fn map_over(
    method: &'static str,
    shape: &[usize],
    accesses: Vec<Access>,
    operands: &[&Tensor],
    f: impl FnOnce(&mut Expr, &[RowId]) -> Result<RowId, ExprError>,
) -> Result<Tensor, TensorError> {
    let mut e = Expr::new();
    let rows: Vec<RowId> = operands.iter().enumerate().map(|(n, t)| e.push_operand(n, t.dtype())).collect();
    let value = f(&mut e, &rows).map_err(|source| TensorError::Expr { operation: method, source })?;
    let dtype = e.dtype_of(value);
    let join = ending(&e, value);
    let einsum = Einsum { labels: letters(shape), rank: shape.len(), accesses, join, monoid: Monoid::Sum, dtype };
    Ok(Tensor::row_einsum(method, einsum, operands))
}

/// A number as a row of type `dtype`.
pub(crate) fn number(e: &mut Expr, value: f64, dtype: DType) -> RowId {
    if dtype.is_float() { e.float(value, dtype) } else { e.constant(Literal::Int(value as i64), dtype) }
}

/// What a function of two operands does to their types.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Works in the promoted type.
    Promote,
    /// As `Promote`, but integers become `F32`.
    Float,
    /// Gives a bool.
    Compare,
}

/// A function of two broadcast operands, at least one of them a tensor.
fn pair(method: &'static str, kind: Kind, function: Binary, left: &Operand, right: &Operand) -> Tensor {
    Tensor::attempt(|| {
        let tensors: Vec<&Tensor> =
            [left, right].into_iter().filter_map(|o| if let Operand::Tensor(t) = o { Some(t) } else { None }).collect();
        let mut types = Vec::new();
        for t in &tensors {
            let ty = t.ty()?;
            types.push((ty.dtype, ty.shape.len()));
        }
        let scalar = tensors.len() < 2;
        let float = [left, right].iter().any(|o| matches!(o, Operand::Float(_)));
        let mut dtype = result_type(&types);
        if scalar {
            dtype = with_scalar(dtype, float);
        }
        if kind == Kind::Float && !dtype.is_float() {
            dtype = DType::F32;
        }
        // A number keeps its digits: 16-bit floats meet it in f32 and round once. What is compared with it has
        // been rounded, and so is the number.
        let inner = if scalar && kind != Kind::Compare { dtype.accumulator() } else { dtype };
        map(method, &tensors, |e, rows| {
            let mut rows = rows.iter();
            let mut row = |e: &mut Expr, o: &Operand| match o {
                Operand::Tensor(_) => e.cast(*rows.next().expect("one row a tensor"), inner),
                Operand::Float(v) => number(e, *v, inner),
                Operand::Int(v) if inner.is_float() => number(e, *v as f64, inner),
                Operand::Int(v) => e.constant(Literal::Int(*v), inner),
            };
            let l = row(e, left);
            let r = row(e, right);
            let value = e.binary(function, l, r)?;
            Ok(if kind == Kind::Compare { value } else { e.cast(value, dtype) })
        })
    })
}

/// `left + right`.
pub(crate) fn add(left: &Operand, right: &Operand) -> Tensor {
    pair("add", Kind::Promote, Binary::Add, left, right)
}

/// `left - right`.
pub(crate) fn sub(left: &Operand, right: &Operand) -> Tensor {
    pair("sub", Kind::Promote, Binary::Sub, left, right)
}

/// `left * right`.
pub(crate) fn mul(left: &Operand, right: &Operand) -> Tensor {
    pair("mul", Kind::Promote, Binary::Mul, left, right)
}

/// `left / right`.
pub(crate) fn div(left: &Operand, right: &Operand) -> Tensor {
    pair("div", Kind::Float, Binary::Div, left, right)
}

impl Tensor {
    fn with(&self, other: impl Into<Operand>, method: &'static str, kind: Kind, function: Binary) -> Tensor {
        pair(method, kind, function, &self.into(), &other.into())
    }

    /// `self + other`.
    pub fn add(&self, other: impl Into<Operand>) -> Tensor {
        add(&self.into(), &other.into())
    }

    /// `self - other`.
    pub fn sub(&self, other: impl Into<Operand>) -> Tensor {
        sub(&self.into(), &other.into())
    }

    /// `self * other`.
    pub fn mul(&self, other: impl Into<Operand>) -> Tensor {
        mul(&self.into(), &other.into())
    }

    /// `self / other`: true division, so integers give `F32`.
    pub fn div(&self, other: impl Into<Operand>) -> Tensor {
        div(&self.into(), &other.into())
    }

    /// `self` to the power `exponent`.
    pub fn pow(&self, exponent: impl Into<Operand>) -> Tensor {
        match exponent.into() {
            Operand::Float(2.0) | Operand::Int(2) => self.square(),
            Operand::Float(0.5) => self.sqrt(),
            other => self.with(other, "pow", Kind::Promote, Binary::Pow),
        }
    }

    /// `self * self`.
    pub fn square(&self) -> Tensor {
        Tensor::attempt(|| map("square", &[self], |e, r| e.binary(Binary::Mul, r[0], r[0])))
    }

    /// The larger of both; a NaN wins.
    pub fn maximum(&self, other: impl Into<Operand>) -> Tensor {
        self.with(other, "maximum", Kind::Promote, Binary::Max)
    }

    /// The smaller of both; a NaN wins.
    pub fn minimum(&self, other: impl Into<Operand>) -> Tensor {
        self.with(other, "minimum", Kind::Promote, Binary::Min)
    }

    /// At least `min`, at most `max`.
    pub fn clamp(&self, min: impl Into<Operand>, max: impl Into<Operand>) -> Tensor {
        self.maximum(min).minimum(max)
    }

    /// `self < other`, a bool.
    pub fn lt(&self, other: impl Into<Operand>) -> Tensor {
        self.with(other, "lt", Kind::Compare, Binary::Lt)
    }

    /// `self <= other`, a bool.
    pub fn le(&self, other: impl Into<Operand>) -> Tensor {
        self.with(other, "le", Kind::Compare, Binary::Le)
    }

    /// `self > other`, a bool.
    pub fn gt(&self, other: impl Into<Operand>) -> Tensor {
        pair("gt", Kind::Compare, Binary::Lt, &other.into(), &self.into())
    }

    /// `self >= other`, a bool.
    pub fn ge(&self, other: impl Into<Operand>) -> Tensor {
        pair("ge", Kind::Compare, Binary::Le, &other.into(), &self.into())
    }

    /// `self == other`, a bool.
    pub fn eq(&self, other: impl Into<Operand>) -> Tensor {
        self.with(other, "eq", Kind::Compare, Binary::Eq)
    }

    /// `self != other`, a bool.
    pub fn ne(&self, other: impl Into<Operand>) -> Tensor {
        self.with(other, "ne", Kind::Compare, Binary::Ne)
    }

    fn logical(&self, other: &Tensor, method: &'static str, function: Binary) -> Tensor {
        Tensor::attempt(|| {
            map(method, &[self, other], |e, r| {
                let (a, b) = (e.cast(r[0], DType::Bool), e.cast(r[1], DType::Bool));
                e.binary(function, a, b)
            })
        })
    }

    /// Whether both are not 0.
    pub fn logical_and(&self, other: &Tensor) -> Tensor {
        self.logical(other, "logical_and", Binary::And)
    }

    /// Whether one of both is not 0.
    pub fn logical_or(&self, other: &Tensor) -> Tensor {
        self.logical(other, "logical_or", Binary::Or)
    }

    /// Whether it is 0.
    pub fn logical_not(&self) -> Tensor {
        Tensor::attempt(|| {
            map("logical_not", &[self], |e, r| {
                let b = e.cast(r[0], DType::Bool);
                e.unary(Unary::Not, b)
            })
        })
    }

    /// `self` where `condition` holds, else `other`: `torch.where(condition, self, other)`.
    pub fn where_(&self, condition: &Tensor, other: impl Into<Operand>) -> Tensor {
        let other = other.into();
        Tensor::attempt(|| {
            if condition.ty()?.dtype != DType::Bool {
                return Err(condition.type_error("where", "the condition must be a bool; compare it, as in `.ne(0)`"));
            }
            let own = (self.ty()?.dtype, self.dim());
            let (dtype, operands) = match &other {
                Operand::Tensor(t) => {
                    let theirs = (t.ty()?.dtype, t.dim());
                    (result_type(&[own, theirs]), vec![condition, self, t])
                }
                Operand::Float(_) => (with_scalar(own.0, true), vec![condition, self]),
                Operand::Int(_) => (with_scalar(own.0, false), vec![condition, self]),
            };
            map("where", &operands, |e, r| {
                let yes = e.cast(r[1], dtype);
                let no = match &other {
                    Operand::Tensor(_) => e.cast(r[2], dtype),
                    Operand::Float(v) => number(e, *v, dtype),
                    Operand::Int(v) => number(e, *v as f64, dtype),
                };
                e.select(r[0], yes, no)
            })
        })
    }

    /// `value` where `mask` holds, else `self`.
    pub fn masked_fill(&self, mask: &Tensor, value: f64) -> Tensor {
        let kept = mask.logical_not();
        if self.dtype().is_float() { self.where_(&kept, value) } else { self.where_(&kept, value as i64) }
    }

    /// Conversion to another type. Floats become integers by truncation.
    pub fn to(&self, dtype: DType) -> Tensor {
        if self.check().is_err() || self.dtype() == dtype {
            return self.clone();
        }
        Tensor::attempt(|| map("to", &[self], |e, r| Ok(e.cast(r[0], dtype))))
    }

    /// `-self`.
    pub fn neg(&self) -> Tensor {
        Tensor::attempt(|| map("neg", &[self], |e, r| e.unary(Unary::Neg, r[0])))
    }

    /// The absolute value.
    pub fn abs(&self) -> Tensor {
        Tensor::attempt(|| map("abs", &[self], |e, r| e.unary(Unary::Abs, r[0])))
    }

    /// `max(self, 0)`.
    pub fn relu(&self) -> Tensor {
        Tensor::attempt(|| {
            map("relu", &[self], |e, r| {
                let zero = number(e, 0.0, e.dtype_of(r[0]));
                e.binary(Binary::Max, r[0], zero)
            })
        })
    }

    /// A function of floats: integers become `F32`, 16-bit floats are computed in `F32` and rounded once.
    fn float_map(
        &self,
        method: &'static str,
        f: impl FnOnce(&mut Expr, RowId, DType) -> Result<RowId, ExprError>,
    ) -> Tensor {
        Tensor::attempt(|| {
            let dtype = with_scalar(self.ty()?.dtype, true);
            map(method, &[self], |e, r| {
                let inner = dtype.accumulator();
                let x = e.cast(r[0], inner);
                let y = f(e, x, inner)?;
                Ok(e.cast(y, dtype))
            })
        })
    }
}

macro_rules! unary {
    ($($method:ident $function:ident $doc:literal),* $(,)?) => {
        impl Tensor {
            $(
                #[doc = $doc]
                pub fn $method(&self) -> Tensor {
                    self.float_map(stringify!($method), |e, x, _| e.unary(Unary::$function, x))
                }
            )*
        }
    };
}

unary! {
    exp Exp "e to the power `self`.",
    log Log "The natural logarithm.",
    sqrt Sqrt "The square root.",
    rsqrt Rsqrt "`1 / sqrt(self)`.",
    sin Sin "The sine.",
    cos Cos "The cosine.",
    tanh Tanh "The hyperbolic tangent.",
    erf Erf "The error function.",
    sigmoid Sigmoid "`1 / (1 + exp(-self))`.",
    floor Floor "The largest integer that is not above.",
}

/// How [`Tensor::gelu`] is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gelu {
    /// With the error function: `approximate="none"`.
    Exact,
    /// With the hyperbolic tangent: `approximate="tanh"`.
    Tanh,
}

impl Tensor {
    /// `1 / self`.
    pub fn reciprocal(&self) -> Tensor {
        div(&Operand::Float(1.0), &self.into())
    }

    /// `self * sigmoid(self)`.
    pub fn silu(&self) -> Tensor {
        self.float_map("silu", |e, x, _| {
            let s = e.unary(Unary::Sigmoid, x)?;
            e.binary(Binary::Mul, x, s)
        })
    }

    /// The Gaussian error linear unit.
    pub fn gelu(&self, approximate: Gelu) -> Tensor {
        self.float_map("gelu", |e, x, dtype| {
            let (half, one) = (e.float(0.5, dtype), e.float(1.0, dtype));
            let inner = match approximate {
                Gelu::Exact => {
                    let scale = e.float(std::f64::consts::FRAC_1_SQRT_2, dtype);
                    let scaled = e.binary(Binary::Mul, x, scale)?;
                    e.unary(Unary::Erf, scaled)?
                }
                Gelu::Tanh => {
                    let cubic = e.float(0.044715, dtype);
                    let scale = e.float((2.0 / std::f64::consts::PI).sqrt(), dtype);
                    let square = e.binary(Binary::Mul, x, x)?;
                    let cube = e.binary(Binary::Mul, square, x)?;
                    let cube = e.binary(Binary::Mul, cubic, cube)?;
                    let sum = e.binary(Binary::Add, x, cube)?;
                    let scaled = e.binary(Binary::Mul, scale, sum)?;
                    e.unary(Unary::Tanh, scaled)?
                }
            };
            let gate = e.binary(Binary::Add, one, inner)?;
            let halved = e.binary(Binary::Mul, half, x)?;
            e.binary(Binary::Mul, halved, gate)
        })
    }

    /// A tensor of one value.
    pub fn full(shape: &[usize], value: f64, dtype: DType) -> Tensor {
        Tensor::attempt(|| map_over("full", shape, vec![], &[], |e, _| Ok(number(e, value, dtype))))
    }

    /// A tensor of zeros.
    pub fn zeros(shape: &[usize], dtype: DType) -> Tensor {
        Tensor::full(shape, 0.0, dtype)
    }

    /// A tensor of ones.
    pub fn ones(shape: &[usize], dtype: DType) -> Tensor {
        Tensor::full(shape, 1.0, dtype)
    }

    /// `0, 1, …, end - 1`.
    pub fn arange(end: usize, dtype: DType) -> Tensor {
        Tensor::attempt(|| {
            map_over("arange", &[end], vec![], &[], |e, _| {
                let i = e.index(0);
                Ok(e.cast(i, dtype))
            })
        })
    }

    /// Zeros above the diagonal that is `diagonal` to the right of the main one, on the last two axes.
    pub fn tril(&self, diagonal: i64) -> Tensor {
        self.triangle("tril", diagonal, |e, row, column| e.binary(Binary::Le, column, row))
    }

    /// Zeros below the diagonal that is `diagonal` to the right of the main one, on the last two axes.
    pub fn triu(&self, diagonal: i64) -> Tensor {
        self.triangle("triu", diagonal, |e, row, column| e.binary(Binary::Le, row, column))
    }

    fn triangle(
        &self,
        method: &'static str,
        diagonal: i64,
        keep: impl FnOnce(&mut Expr, RowId, RowId) -> Result<RowId, ExprError>,
    ) -> Tensor {
        Tensor::attempt(|| {
            let rank = self.ty()?.shape.len();
            if rank < 2 {
                return Err(self.shape_error(method, "needs two axes or more".into()));
            }
            map(method, &[self], |e, r| {
                let (row, column) = (e.index(rank - 2), e.index(rank - 1));
                let shift = e.constant(Literal::Int(diagonal), DType::I64);
                let row = e.binary(Binary::Add, row, shift)?;
                let kept = keep(e, row, column)?;
                let zero = number(e, 0.0, e.dtype_of(r[0]));
                e.select(kept, r[0], zero)
            })
        })
    }
}
