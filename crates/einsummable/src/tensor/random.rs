//! Random numbers: functions of a seed and of an element's global index, so that no decomposition changes a draw.
//!
//! The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw (Parallel Random Numbers: As Easy as 1, 2, 3, SC
//! 2011): ten rounds of multiplications and exclusive ors turn a counter, which is the row-major index, and a key,
//! which is the seed, into 128 bits. One seed gives one stream: tensors that are to be independent need two. A seed is
//! a number or, to draw anew at each run, an `I64` tensor of rank 0.

use super::formula::{Formula, Value};
use super::map::{aligned, written};
use super::{Operand, Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::expr::Literal;

/// The lower half of a 64-bit word.
const WORD: i64 = 0xffff_ffff;

/// The seed as the two words of a key, raised by `round` times the generator's two constants.
fn key<'f>(seed: Seed<'f>, f: &'f Formula, round: u32) -> [Value<'f>; 2] {
    const RAISE: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    let raised = |half: usize| {
        let by = RAISE[half].wrapping_mul(round);
        match seed {
            Seed::Number(seed) => {
                let word = (seed >> (32 * half)) as u32;
                f.constant(Literal::Int(i64::from(word.wrapping_add(by))), DType::I64)
            }
            Seed::Value(seed) => ((seed >> (32 * half as i64)) + i64::from(by)) & WORD,
        }
    };
    [raised(0), raised(1)]
}

/// A seed inside a formula.
#[derive(Clone, Copy)]
enum Seed<'f> {
    Number(u64),
    Value(Value<'f>),
}

/// The four words of Philox4x32-10 for a counter.
fn philox<'f>(f: &'f Formula, seed: Seed<'f>, counter: [Value<'f>; 4]) -> [Value<'f>; 4] {
    const MULTIPLY: [i64; 2] = [0xd251_1f53, 0xcd9e_8d57];
    let mut c = counter;
    for round in 0..10 {
        let k = key(seed, f, round);
        let (a, b) = (c[0] * MULTIPLY[0], c[2] * MULTIPLY[1]);
        let high = |product: Value<'f>| (product >> 32_i64) & WORD;
        c = [high(b) ^ c[1] ^ k[0], b & WORD, high(a) ^ c[3] ^ k[1], a & WORD];
    }
    c
}

/// The words of the element at the formula's indices of a tensor of this shape.
fn words<'f>(f: &'f Formula, seed: Seed<'f>, shape: &[usize]) -> [Value<'f>; 4] {
    let zero = f.constant(Literal::Int(0), DType::I64);
    let mut index = zero;
    for (axis, &extent) in shape.iter().enumerate() {
        index = index * extent as i64 + f.index(axis);
    }
    philox(f, seed, [index & WORD, (index >> 32_i64) & WORD, zero, zero])
}

/// A number below 1 and not below 0, with as many digits as the type has.
fn below_one([a, b, ..]: [Value<'_>; 4], dtype: DType) -> Value<'_> {
    let digits = |bits: i32| (a >> i64::from(32 - bits)).cast(DType::F32) * 0.5f64.powi(bits);
    match dtype {
        DType::F64 => ((a >> 5_i64) * (1_i64 << 26) + (b >> 6_i64)).cast(DType::F64) * 0.5f64.powi(53),
        DType::F32 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => digits(24),
        DType::F16 => digits(11),
        DType::BF16 => digits(8),
    }
}

/// A number of the standard normal distribution, after Box and Muller (1958).
fn normal<'f>([a, b, c, d]: [Value<'f>; 4], dtype: DType) -> Value<'f> {
    use std::f64::consts::TAU;
    let (radius, turn) = if dtype == DType::F64 {
        let joined = |high: Value<'f>, low: Value<'f>| (high << 21_i64) ^ (low >> 11_i64);
        let (u, v) = (joined(a, b) + 1_i64, joined(c, d));
        (u.cast(DType::F64) * 0.5f64.powi(53), v.cast(DType::F64) * (TAU * 0.5f64.powi(53)))
    } else {
        ((a + 1_i64).cast(DType::F32) * 0.5f64.powi(32), b.cast(DType::F32) * (TAU * 0.5f64.powi(32)))
    };
    (radius.log() * -2.0).sqrt() * turn.cos()
}

/// A number of the exponential distribution of rate 1, above 0.
fn waited([a, b, ..]: [Value<'_>; 4], dtype: DType) -> Value<'_> {
    let u = if dtype == DType::F64 {
        (((a << 21_i64) ^ (b >> 11_i64)) + 1_i64).cast(DType::F64) * 0.5f64.powi(53)
    } else {
        // Half a step up, so that neither end is reached.
        ((a >> 8_i64).cast(DType::F32) + 0.5) * 0.5f64.powi(24)
    };
    -u.log()
}

/// A tensor of one draw an element.
fn drawn(
    method: &'static str,
    shape: &[usize],
    seed: &Operand,
    f: impl for<'f> FnOnce([Value<'f>; 4]) -> Value<'f>,
) -> Result<Tensor, TensorError> {
    with(method, shape, &[], seed, |words, _| f(words))
}

/// A map of operands, which are broadcast to `shape`, and of one draw an element.
fn with(
    method: &'static str,
    shape: &[usize],
    operands: &[&Tensor],
    seed: &Operand,
    f: impl for<'f> FnOnce([Value<'f>; 4], &[Value<'f>]) -> Value<'f>,
) -> Result<Tensor, TensorError> {
    let mut read = operands.to_vec();
    let wrong = |not: String| {
        let reason = format!("the seed must be a whole number or an i64 tensor of rank 0{not}");
        TensorError::Shape { operation: method, shapes: vec![shape.to_vec()], reason }
    };
    match seed {
        Operand::Int(_) => {}
        Operand::Tensor(t) if t.ty()?.dtype == DType::I64 && t.dim() == 0 => read.push(t),
        Operand::Tensor(t) => return Err(wrong(format!(", not {}", t.ty()?))),
        Operand::Float(_) | Operand::Bool(_) => return Err(wrong(String::new())),
    }
    let accesses = read.iter().map(|t| aligned(t.shape(), shape, 0)).collect();
    written(method, shape, accesses, &read, |formula, rows| {
        let seed = match seed {
            Operand::Int(seed) => Seed::Number(*seed as u64),
            Operand::Tensor(_) | Operand::Float(_) | Operand::Bool(_) => Seed::Value(rows[operands.len()]),
        };
        f(words(formula, seed, shape), &rows[..operands.len()])
    })
}

fn floats(method: &'static str, dtype: DType) -> Result<(), TensorError> {
    if dtype.is_float() {
        return Ok(());
    }
    let reason = "needs a type of floats; use `randint` for integers".into();
    Err(TensorError::Type { operation: method, dtypes: vec![dtype], reason })
}

impl Tensor {
    /// Numbers from 0 to 1, 1 excluded, each a multiple of 2⁻²⁴ (`F32`), 2⁻⁵³ (`F64`), 2⁻¹¹ (`F16`) or 2⁻⁸ (`BF16`).
    pub fn rand(shape: &[usize], dtype: DType, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            floats("rand", dtype)?;
            drawn("rand", shape, &seed.into(), |w| below_one(w, dtype).cast(dtype))
        })
    }

    /// As [`Tensor::rand`], in the shape and type of `self`.
    pub fn rand_like(&self, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| self.ty().map(|ty| Tensor::rand(&ty.shape, ty.dtype, seed)))
    }

    /// Numbers from `low` to `high`: `torch.empty(shape).uniform_(low, high)`.
    pub fn uniform(shape: &[usize], low: f64, high: f64, dtype: DType, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            floats("uniform", dtype)?;
            if !(low <= high && (high - low).is_finite()) {
                let reason = format!("from {low} to {high} is no finite interval");
                return Err(TensorError::Shape { operation: "uniform", shapes: vec![shape.to_vec()], reason });
            }
            drawn("uniform", shape, &seed.into(), |w| (below_one(w, dtype) * (high - low) + low).cast(dtype))
        })
    }

    /// Numbers of the normal distribution of mean 0 and variance 1.
    pub fn randn(shape: &[usize], dtype: DType, seed: impl Into<Operand>) -> Tensor {
        Tensor::normal(shape, 0.0, 1.0, dtype, seed)
    }

    /// As [`Tensor::randn`], in the shape and type of `self`.
    pub fn randn_like(&self, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| self.ty().map(|ty| Tensor::randn(&ty.shape, ty.dtype, seed)))
    }

    /// Numbers of the normal distribution of this mean and standard deviation.
    pub fn normal(shape: &[usize], mean: f64, std: f64, dtype: DType, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            floats("normal", dtype)?;
            if std < 0.0 {
                let reason = format!("a standard deviation of {std}, which is below 0");
                return Err(TensorError::Shape { operation: "normal", shapes: vec![shape.to_vec()], reason });
            }
            let plain = mean == 0.0 && std == 1.0;
            drawn(if plain { "randn" } else { "normal" }, shape, &seed.into(), |w| {
                let z = normal(w, dtype);
                (if plain { z } else { z * std + mean }).cast(dtype)
            })
        })
    }

    /// Integers from `low` to `high`, which is excluded; as floats where the type is one.
    pub fn randint(low: i64, high: i64, shape: &[usize], dtype: DType, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            let Some(range) = high.checked_sub(low).filter(|&r| r > 0) else {
                let reason = format!("from {low} below {high} there is no integer, or more than 2^63");
                return Err(TensorError::Shape { operation: "randint", shapes: vec![shape.to_vec()], reason });
            };
            drawn("randint", shape, &seed.into(), |[a, b, ..]| {
                // 63 bits, so that no range that is used is drawn unevenly.
                ((((a << 31_i64) ^ (b >> 1_i64)) % range) + low).cast(dtype)
            })
        })
    }

    /// 1 with the probability that `self` says at the element, else 0: `torch.bernoulli(self)`.
    pub fn bernoulli(&self, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            if !dtype.is_float() {
                return Err(self.type_error("bernoulli", "probabilities are floats; convert with `.to`"));
            }
            with("bernoulli", self.shape(), &[self], &seed.into(), |w, p| {
                let wide = dtype.accumulator();
                below_one(w, wide).lt(p[0].cast(wide)).cast(dtype)
            })
        })
    }

    /// Numbers of the exponential distribution of this rate: `torch.empty(shape).exponential_(rate)`.
    pub fn exponential(shape: &[usize], rate: f64, dtype: DType, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            floats("exponential", dtype)?;
            if rate.is_nan() || rate <= 0.0 {
                let reason = format!("the rate {rate} is not above 0");
                return Err(TensorError::Shape { operation: "exponential", shapes: vec![shape.to_vec()], reason });
            }
            drawn("exponential", shape, &seed.into(), |w| (waited(w, dtype) / rate).cast(dtype))
        })
    }

    /// The numbers below `n` in random order, as `I64`.
    pub fn randperm(n: usize, seed: impl Into<Operand>) -> Tensor {
        // Of 63 bits, so that equal ones, which keep their order, hardly occur.
        Tensor::randint(0, i64::MAX, &[n], DType::I64, seed).argsort(0, false)
    }

    /// Indices of the last axis, `samples` for each row, drawn by the weights in the row; without `replacement` no
    /// index twice. A row of one or two axes, as in `PyTorch`. By the exponential race: of waiting times that are
    /// divided by the weights, the shortest win.
    pub fn multinomial(&self, samples: usize, replacement: bool, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            let ty = self.ty()?.clone();
            if !ty.dtype.is_float() {
                return Err(self.type_error("multinomial", "weights are floats; convert with `.to`"));
            }
            let [.., classes] = ty.shape[..] else {
                return Err(self.shape_error("multinomial", "needs one or two axes".into()));
            };
            if ty.shape.len() > 2 {
                return Err(self.shape_error("multinomial", "needs one or two axes".into()));
            }
            if samples == 0 || classes == 0 || !replacement && samples > classes {
                let reason = format!("{samples} of {classes} indices without replacement; draw from 1 to all of them");
                return Err(self.shape_error("multinomial", reason));
            }
            let wide = ty.dtype.accumulator();
            // A race for every sample, or one whose first are taken.
            let races = if replacement { samples } else { 1 };
            let weights = self.unsqueeze(-2);
            let mut shape = weights.shape().to_vec();
            shape[ty.shape.len() - 1] = races;
            let times = with("multinomial", &shape, &[&weights], &seed.into(), |words, w| {
                let weight = w[0].cast(wide);
                // What has no weight never arrives.
                weight.gt(0.0).select(waited(words, wide) / weight, f64::INFINITY)
            })?;
            if replacement {
                return Ok(times.argmin(Some(-1), false));
            }
            Ok(times.squeeze(&[-2]).topk(samples, -1, false).1)
        })
    }

    /// Each element 0 with probability `p`, else divided by `1 - p`: `torch.nn.functional.dropout` while training.
    pub fn dropout(&self, p: f64, seed: impl Into<Operand>) -> Tensor {
        Tensor::attempt(|| {
            let dtype = self.ty()?.dtype;
            if !dtype.is_float() {
                return Err(self.type_error("dropout", "needs floats; convert with `.to`"));
            }
            if !(0.0..=1.0).contains(&p) {
                return Err(self.shape_error("dropout", format!("the probability {p} is not between 0 and 1")));
            }
            let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
            with("dropout", self.shape(), &[self], &seed.into(), |w, x| {
                let wide = dtype.accumulator();
                let x = x[0].cast(wide);
                below_one(w, wide).ge(p).select(x * scale, 0.0).cast(dtype)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::scalar::{Scalar, evaluate};

    /// The four words by the expression.
    fn evaluated(seed: u64, as_value: bool, counter: [u32; 4]) -> Vec<u32> {
        let word = |n: usize| {
            let formula = Formula::default();
            let row = {
                let int = |v: i64| formula.constant(Literal::Int(v), DType::I64);
                let key = if as_value { Seed::Value(int(seed as i64)) } else { Seed::Number(seed) };
                philox(&formula, key, counter.map(|c| int(i64::from(c))))[n].row()
            };
            let e = crate::expression::ending(&formula.expr().expect("well typed"), row);
            match evaluate(&e, &[], &[]) {
                Scalar::I(v) => u32::try_from(v).expect("a word"),
                Scalar::F(_) => panic!("a word is an integer"),
            }
        };
        (0..4).map(word).collect()
    }

    /// The known answers that its authors publish with the generator.
    #[test]
    fn words_are_those_of_philox() {
        let check = |counter, seed, expected: [u32; 4]| {
            for as_value in [false, true] {
                assert_eq!(evaluated(seed, as_value, counter), expected, "{counter:x?} {seed:x}");
            }
        };
        check([0; 4], 0, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        check([u32::MAX; 4], u64::MAX, [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        check(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            0x299f_31d0_a409_3822,
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        );
    }
}
