//! Cross-entropy over classes. The row of classes may be cut: what leaves a device is two statistics and the picked
//! element, and no tensor of zeros and ones is made.

use super::formula::Value;
use super::loss::{Reduction, classes};
use super::map::written;
use super::reduce::{fold, folded};
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::Access;
use ein_ir::monoid::Monoid;

/// Options of [`Tensor::cross_entropy`] and [`Tensor::nll_loss`], at `PyTorch`'s defaults.
#[derive(Clone, Debug)]
pub struct CrossEntropyOptions {
    weight: Option<Tensor>,
    ignore_index: i64,
    reduction: Reduction,
    label_smoothing: f64,
}

impl Default for CrossEntropyOptions {
    fn default() -> Self {
        Self { weight: None, ignore_index: -100, reduction: Reduction::Mean, label_smoothing: 0.0 }
    }
}

impl CrossEntropyOptions {
    /// No weights, nothing smoothed, targets of -100 ignored, the mean.
    pub fn new() -> CrossEntropyOptions {
        Self::default()
    }

    /// One weight a class.
    pub fn weight(self, weight: &Tensor) -> CrossEntropyOptions {
        Self { weight: Some(weight.clone()), ..self }
    }

    /// The class number that counts for nothing.
    pub fn ignore_index(self, ignore_index: i64) -> CrossEntropyOptions {
        Self { ignore_index, ..self }
    }

    /// What becomes of the losses.
    pub fn reduction(self, reduction: Reduction) -> CrossEntropyOptions {
        Self { reduction, ..self }
    }

    /// How much of the target is spread evenly over all classes, from 0 to 1.
    pub fn label_smoothing(self, label_smoothing: f64) -> CrossEntropyOptions {
        Self { label_smoothing, ..self }
    }
}

/// Scores, where their classes lie, and what is asked of them.
struct Question<'t> {
    method: &'static str,
    scores: &'t Tensor,
    /// The axis of classes, and their number.
    axis: usize,
    classes: usize,
    options: &'t CrossEntropyOptions,
    /// The type in which all is computed.
    wide: DType,
}

impl<'t> Question<'t> {
    fn new(method: &'static str, scores: &'t Tensor, options: &'t CrossEntropyOptions) -> Result<Self, TensorError> {
        let dtype = scores.float_type(method)?;
        let shape = scores.shape();
        if shape.is_empty() {
            return Err(scores.shape_error(method, "needs an axis of classes".into()));
        }
        let axis = usize::from(shape.len() > 1);
        let classes = shape[axis];
        if classes == 0 {
            return Err(scores.shape_error(method, format!("axis {axis}, of classes, is 0 long")));
        }
        if let Some(weight) = &options.weight {
            if weight.ty()?.shape != [classes] {
                let shapes = vec![shape.to_vec(), weight.shape().to_vec()];
                let reason = format!("the weight must have shape [{classes}], one for each class on axis {axis}");
                return Err(TensorError::Shape { operation: method, shapes, reason });
            }
            weight.float_type(method)?;
        }
        if !(0.0..=1.0).contains(&options.label_smoothing) {
            let reason = format!("a label smoothing of {}, which is not between 0 and 1", options.label_smoothing);
            return Err(scores.shape_error(method, reason));
        }
        Ok(Self { method, scores, axis, classes, options, wide: dtype.accumulator() })
    }

    /// The axes of the space that a tensor without classes has.
    fn others(&self) -> Vec<usize> {
        (0..self.scores.dim()).filter(|&a| a != self.axis).collect()
    }

    /// The sum over classes of a formula of the scores, the class's weight (1 where none is given), some tensors of
    /// the scores' shape or without classes, and the class number.
    fn over_classes(
        &self,
        more: &[&Tensor],
        f: impl for<'f> FnOnce(Value<'f>, Value<'f>, &[Value<'f>], Value<'f>) -> Value<'f>,
    ) -> Result<Tensor, TensorError> {
        let all: Vec<usize> = (0..self.scores.dim()).collect();
        let own = |t: &Tensor| if t.dim() == all.len() { all.clone() } else { self.others() };
        let mut operands = vec![(self.scores, all.clone())];
        operands.extend(more.iter().map(|&t| (t, own(t))));
        operands.extend(self.options.weight.iter().map(|w| (w, vec![self.axis])));
        let fold = (Monoid::Sum, self.wide);
        folded(self.method, self.scores.shape(), &[self.axis], &operands, fold, |v, index| {
            let x = v[0].cast(self.wide);
            let weight = v.get(1 + more.len()).map_or_else(|| x.number(1.0), |w| w.cast(self.wide));
            f(x, weight, &v[1..=more.len()], index(self.axis))
        })
    }

    /// A map over the scores' axes without classes.
    fn each(
        &self,
        operands: &[&Tensor],
        f: impl for<'f> FnOnce(&[Value<'f>]) -> Value<'f>,
    ) -> Result<Tensor, TensorError> {
        let shape: Vec<usize> = self.others().iter().map(|&a| self.scores.shape()[a]).collect();
        let access = Access::labels(&(0..shape.len()).collect::<Vec<_>>());
        written(self.method, &shape, vec![access; operands.len()], operands, |_, v| f(v))
    }

    /// The largest score, and the logarithm of the sum of what the exponentials are of its.
    fn statistics(&self) -> Result<[Tensor; 2], TensorError> {
        let wide = self.wide;
        let stats =
            fold("softmax_stats", self.scores, &[self.axis], Monoid::SoftMax, wide, |e, x| Ok(e.cast(x, wide)))?;
        let last = stats.dim() as i64 - 1;
        Ok([stats.select(last, 0), stats.select(last, 1).log()])
    }

    /// The loss of class numbers. `statistics` are those of scores that are no logarithms of probabilities yet.
    fn numbers(&self, target: &Tensor, statistics: Option<&[Tensor; 2]>) -> Result<Tensor, TensorError> {
        classes(self.method, target)?;
        let expected: Vec<usize> = self.others().iter().map(|&a| self.scores.shape()[a]).collect();
        if target.shape() != expected {
            let shapes = vec![self.scores.shape().to_vec(), target.shape().to_vec()];
            let reason = format!("class numbers must have shape {expected:?}, the scores' without axis {}", self.axis);
            return Err(TensorError::Shape { operation: self.method, shapes, reason });
        }
        let (options, count) = (self.options, self.classes as i64);
        let share = options.label_smoothing;
        let picked = self.over_classes(&[target], |x, _, t, class| t[0].cast(DType::I64).eq(class).select(x, 0.0))?;
        let mut operands = vec![target, &picked];
        let smooth = match statistics {
            Some([top, log]) if share > 0.0 => {
                Some(self.over_classes(&[top, log], |x, weight, s, _| weight * ((s[0] - x) + s[1]))?)
            }
            Some(_) | None => None,
        };
        let weight =
            match &options.weight {
                Some(_) => Some(self.over_classes(&[target], |_, weight, t, class| {
                    t[0].cast(DType::I64).eq(class).select(weight, 0.0)
                })?),
                None => None,
            };
        operands.extend(statistics.into_iter().flatten());
        operands.extend(smooth.iter().chain(&weight));
        let (scored, smoothed, weighted) = (statistics.is_some(), smooth.is_some(), weight.is_some());
        let losses = self.each(&operands, |v| {
            let mut rows = v.iter().copied();
            let mut next = || rows.next().expect("one row an operand");
            let (t, picked) = (next().cast(DType::I64), next());
            let loss = if scored { (next() - picked) + next() } else { -picked };
            let smooth = smoothed.then(&mut next);
            let loss = if weighted { loss * next() } else { loss };
            let loss = smooth.map_or(loss, |s| loss * (1.0 - share) + s * (share / count as f64));
            // A number that is no class must not pass for a loss.
            let class = t.ge(0_i64) & t.lt(count);
            let loss = class.select(loss, f64::NAN);
            t.eq(options.ignore_index).select(loss.number(0.0), loss)
        })?;
        if options.reduction != Reduction::Mean {
            return Ok(options.reduction.of(&losses));
        }
        // By the weights of what counts: a sum over all devices' parts, never a mean of their means.
        let counted = target.to(DType::I64).ne(options.ignore_index);
        let total = match &weight {
            Some(weight) => weight.where_(&counted, 0.0).sum(&[], false),
            None => counted.sum(&[], false).to(self.wide),
        };
        Ok(losses.sum(&[], false) / total)
    }

    /// The loss of a probability for every class.
    fn probabilities(&self, target: &Tensor) -> Result<Tensor, TensorError> {
        if target.ty()?.shape != self.scores.shape() {
            let shapes = vec![self.scores.shape().to_vec(), target.shape().to_vec()];
            let reason = "probabilities must have the scores' shape; class numbers are integers".into();
            return Err(TensorError::Shape { operation: self.method, shapes, reason });
        }
        let [top, log] = self.statistics()?;
        let (share, wide) = (self.options.label_smoothing, self.wide);
        let even = share / self.classes as f64;
        let losses = self.over_classes(&[target, &top, &log], |x, weight, v, _| {
            let p = v[0].cast(wide);
            let p = if share > 0.0 { p * (1.0 - share) + even } else { p };
            ((v[1] - x) + v[2]) * p * weight
        })?;
        Ok(self.options.reduction.of(&losses))
    }
}

impl Tensor {
    /// `torch.nn.functional.cross_entropy` of scores whose classes lie on axis 1 (axis 0 of a vector): between their
    /// softmax and either class numbers, in the scores' shape without classes, or probabilities, in the scores' shape.
    /// A class number that is no class and not ignored gives NaN, where `PyTorch` fails at run time.
    pub fn cross_entropy(&self, target: &Tensor, options: &CrossEntropyOptions) -> Tensor {
        Tensor::attempt(|| {
            let question = Question::new("cross_entropy", self, options)?;
            let loss = if target.ty()?.dtype.is_float() {
                question.probabilities(target)?
            } else {
                question.numbers(target, Some(&question.statistics()?))?
            };
            Ok(loss.to(self.dtype()))
        })
    }

    /// `torch.nn.functional.nll_loss`: as [`Tensor::cross_entropy`] of class numbers, where `self` are logarithms of
    /// probabilities already. Nothing is smoothed.
    pub fn nll_loss(&self, target: &Tensor, options: &CrossEntropyOptions) -> Tensor {
        Tensor::attempt(|| {
            if options.label_smoothing != 0.0 {
                return Err(self.shape_error("nll_loss", "smooths no labels; `cross_entropy` does".into()));
            }
            let question = Question::new("nll_loss", self, options)?;
            Ok(question.numbers(target, None)?.to(self.dtype()))
        })
    }
}
