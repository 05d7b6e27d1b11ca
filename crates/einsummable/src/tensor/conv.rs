//! Convolutions: einsums whose input is read at `stride * y + dilation * k`. A cut spatial axis needs a halo,
//! a cut input channel leaves partial sums; the graph says both by the indices alone.

use super::map::map_over;
use super::window::{PerAxis, Window, spatial_names};
use super::{Tensor, TensorError};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::monoid::Monoid;

/// The padding of a convolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// That many zeros before and after.
    Zeros(PerAxis),
    /// As many zeros as make the result as long as the input, the odd one after; with a stride of 1 only.
    Same,
    /// None.
    Valid,
}

impl<T: Into<PerAxis>> From<T> for Padding {
    fn from(zeros: T) -> Self {
        Self::Zeros(zeros.into())
    }
}

impl Padding {
    /// Zeros before and after along every axis.
    pub(crate) fn pairs(&self, windows: &[Window]) -> Result<Vec<(usize, usize)>, String> {
        match self {
            Self::Zeros(zeros) => Ok(zeros.each("the padding", windows.len())?.into_iter().map(|n| (n, n)).collect()),
            Self::Valid => Ok(vec![(0, 0); windows.len()]),
            Self::Same => {
                if let Some(w) = windows.iter().find(|w| w.stride != 1) {
                    return Err(format!("padding `same` needs a stride of 1, not {}; give numbers", w.stride));
                }
                let pair = |w: &Window| ((w.reach() - 1) / 2, w.reach() / 2);
                Ok(windows.iter().map(pair).collect())
            }
        }
    }
}

/// The options of [`Tensor::conv1d`], [`Tensor::conv2d`] and [`Tensor::conv3d`], by default `PyTorch`'s: stride 1,
/// no padding, dilation 1, one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// Distance from one window to the next.
    pub stride: PerAxis,
    /// Zeros around the input.
    pub padding: Padding,
    /// Distance from one tap of the kernel to the next.
    pub dilation: PerAxis,
    /// Input and output channels in as many groups, each output reading the inputs of its group only.
    pub groups: usize,
}

impl Default for ConvOptions {
    fn default() -> Self {
        Self { stride: 1.into(), padding: 0.into(), dilation: 1.into(), groups: 1 }
    }
}

impl ConvOptions {
    /// `PyTorch`'s defaults.
    pub fn new() -> ConvOptions {
        Self::default()
    }

    /// With this stride.
    pub fn stride(self, stride: impl Into<PerAxis>) -> ConvOptions {
        Self { stride: stride.into(), ..self }
    }

    /// With this padding.
    pub fn padding(self, padding: impl Into<Padding>) -> ConvOptions {
        Self { padding: padding.into(), ..self }
    }

    /// With this dilation.
    pub fn dilation(self, dilation: impl Into<PerAxis>) -> ConvOptions {
        Self { dilation: dilation.into(), ..self }
    }

    /// With this many groups.
    pub fn groups(self, groups: usize) -> ConvOptions {
        Self { groups, ..self }
    }
}

impl Tensor {
    /// `torch.nn.functional.conv1d`: `[n, c, x]` or `[c, x]` with a weight `[out, c / groups, k]` and a bias `[out]`.
    ///
    /// ```
    /// use einsummable::{ConvOptions, DType, Tensor};
    /// let x = Tensor::input("x", [1, 8, 100], DType::F32);
    /// let w = Tensor::parameter("w", [16, 8, 3], DType::F32);
    /// assert_eq!(x.conv1d(&w, None, &ConvOptions::new().stride(2).padding(1)).shape(), [1, 16, 50]);
    /// ```
    pub fn conv1d(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
        Tensor::attempt(|| convolution("conv1d", 1, self, weight, bias, options))
    }

    /// `torch.nn.functional.conv2d`: `[n, c, y, x]` or `[c, y, x]` with a weight `[out, c / groups, ky, kx]`.
    pub fn conv2d(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
        Tensor::attempt(|| convolution("conv2d", 2, self, weight, bias, options))
    }

    /// `torch.nn.functional.conv3d`: `[n, c, z, y, x]` or `[c, z, y, x]` with a weight `[out, c / groups, kz, ky, kx]`.
    pub fn conv3d(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
        Tensor::attempt(|| convolution("conv3d", 3, self, weight, bias, options))
    }
}

/// Labels in the making.
#[derive(Default)]
pub(crate) struct Labels(pub(crate) Vec<Label>);

impl Labels {
    /// A new label's number.
    pub(crate) fn add(&mut self, name: impl Into<String>, extent: usize) -> usize {
        self.0.push(Label::new(name, extent));
        self.0.len() - 1
    }
}

/// Channel `per * group + within`, where either label may be missing.
pub(crate) fn channel(group: Option<usize>, per: usize, within: Option<usize>) -> Affine {
    let mut terms: Vec<(usize, i64)> = group.map(|g| (g, per as i64)).into_iter().collect();
    terms.extend(within.map(|c| (c, 1)));
    Affine { terms, offset: 0 }
}

/// That a weight has the operation's rank, and that all operands are of one type that can be summed.
pub(crate) fn check_operands(
    operation: &'static str,
    axes: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<(), TensorError> {
    let mut dtypes = vec![x.ty()?.dtype, weight.ty()?.dtype];
    if let Some(bias) = bias {
        dtypes.push(bias.ty()?.dtype);
    }
    if dtypes.iter().any(|&d| d != dtypes[0] || d == DType::Bool) {
        let reason = "input, weight and bias must have one numeric type; convert with `.to`".into();
        return Err(TensorError::Type { operation, dtypes, reason });
    }
    let wrong = |reason: String| {
        Err(TensorError::Shape { operation, shapes: vec![x.shape().to_vec(), weight.shape().to_vec()], reason })
    };
    if weight.dim() != axes + 2 {
        return wrong(format!("the weight must have {} axes, two of channels and {axes} of the kernel", axes + 2));
    }
    if x.dim() != axes + 2 && x.dim() != axes + 1 {
        let (with, without) = (axes + 2, axes + 1);
        return wrong(format!("the input must have {with} axes, batch and channels first, or {without} without batch"));
    }
    if let Some(&extent) = x.shape()[x.dim() - axes..].iter().find(|&&n| n == 0) {
        return wrong(format!("a spatial axis of the input is {extent} long; windows need elements"));
    }
    Ok(())
}

/// That a bias has one number for each output channel.
pub(crate) fn check_bias(operation: &'static str, bias: &Tensor, channels: usize) -> Result<(), TensorError> {
    if bias.shape() == [channels] {
        return Ok(());
    }
    Err(bias.shape_error(operation, format!("the bias must have shape [{channels}], one number an output channel")))
}

fn convolution(
    operation: &'static str,
    axes: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvOptions,
) -> Result<Tensor, TensorError> {
    check_operands(operation, axes, x, weight, bias)?;
    let wrong = |reason: String| {
        let shapes = vec![x.shape().to_vec(), weight.shape().to_vec()];
        TensorError::Shape { operation, shapes, reason }
    };
    let (out, per_group) = (weight.shape()[0], weight.shape()[1]);
    let lead = x.dim() - axes;
    let channels = x.shape()[lead - 1];
    let groups = options.groups;
    if groups == 0 || !out.is_multiple_of(groups) || per_group.checked_mul(groups) != Some(channels) {
        return Err(wrong(format!(
            "{groups} groups: the input has {channels} channels, the weight takes {per_group} a group and gives {out}; \
             channels of the input must be groups times those of the weight, and both multiples of the groups"
        )));
    }
    if let Some(bias) = bias {
        check_bias(operation, bias, out)?;
    }
    let windows = Window::of(&weight.shape()[2..], &options.stride, &options.dilation).map_err(wrong)?;
    let padding = options.padding.pairs(&windows).map_err(wrong)?;
    let mut counts = Vec::new();
    for (n, (window, &(before, after))) in windows.iter().zip(&padding).enumerate() {
        let padded = x.shape()[lead + n].saturating_add(before).saturating_add(after);
        counts.push(window.count(padded).ok_or_else(|| {
            let reach = window.reach();
            wrong(format!("axis {} is {padded} long with its padding, shorter than the kernel's {reach}", lead + n))
        })?);
    }
    let pairs: Vec<(i64, i64)> = padding.iter().rev().map(|&(lo, hi)| (lo as i64, hi as i64)).collect();
    let padded = x.pad(&pairs, 0.0);

    // [n, g, out of the group, windows… | in of the group, taps…], labels of one value left out where they can be.
    let mut labels = Labels::default();
    let batch = (lead == 2).then(|| labels.add("n", x.shape()[0]));
    let group = (groups > 1).then(|| labels.add("g", groups));
    let each = out / groups;
    let to = (groups == 1 || each > 1).then(|| labels.add("o", each));
    let names = spatial_names(axes);
    let places: Vec<usize> = (0..axes).map(|n| labels.add(names[n], counts[n])).collect();
    let rank = labels.0.len();
    let from = (groups == 1 || per_group > 1).then(|| labels.add("i", per_group));
    let taps: Vec<Option<usize>> = (0..axes)
        .map(|n| (windows[n].kernel > 1).then(|| labels.add(format!("k{}", names[n]), windows[n].kernel)))
        .collect();
    let tap = |t: &Option<usize>| t.map_or(Affine::constant(0), Affine::label);
    let mut read: Vec<Affine> = batch.map(Affine::label).into_iter().collect();
    read.push(channel(group, per_group, from));
    read.extend((0..axes).map(|n| windows[n].index(places[n], taps[n])));
    let mut weigh = vec![channel(group, each, to), from.map_or(Affine::constant(0), Affine::label)];
    weigh.extend(taps.iter().map(tap));
    let einsum = Einsum {
        rank,
        accesses: vec![Access { axes: read }, Access { axes: weigh }],
        join: Expr::product(2, x.dtype()),
        monoid: Monoid::Sum,
        dtype: x.dtype(),
        labels: labels.0,
    };
    padded.made()?;
    let product = Tensor::row_einsum(operation, einsum, &[&padded, weight]);
    // The bias before the reshape, so that it can be the product's epilogue.
    let y = add_bias(operation, &product, bias, channel(group, each, to))?;
    let mut shape: Vec<i64> = batch.map(|_| x.shape()[0] as i64).into_iter().collect();
    shape.push(out as i64);
    shape.extend(counts.iter().map(|&n| n as i64));
    Ok(y.reshape(&shape))
}

/// A result with its bias, whose element for a point of the result stands at `index`.
pub(crate) fn add_bias(
    operation: &'static str,
    product: &Tensor,
    bias: Option<&Tensor>,
    index: Affine,
) -> Result<Tensor, TensorError> {
    let Some(bias) = bias else { return Ok(product.clone()) };
    let shape = &product.ty()?.shape;
    let accesses = vec![Access::labels(&(0..shape.len()).collect::<Vec<_>>()), Access { axes: vec![index] }];
    map_over(operation, shape, accesses, &[product, bias], |e, r| e.binary(Binary::Add, r[0], r[1]))
}
