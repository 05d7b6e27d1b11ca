//! Transposed convolutions, by output phase.
//!
//! Element `x` of the input and tap `k` meet at `stride * x + dilation * k - padding` of the output. With `g` the
//! common divisor of stride and dilation, tap `k = c + stride / g * j` always meets at outputs of one remainder, so
//! for every class `c` of taps the output is an ordinary convolution over `j`: one einsum with the classes as a
//! label, its result laid out by a reshape. No zero is put between the elements of the input, which would multiply
//! the work by the stride on every axis; zeros are multiplied only where the kernel is no multiple of the classes.

use super::conv::{Labels, add_bias, channel, check_bias, check_operands};
use super::window::{PerAxis, spatial_names};
use super::{Tensor, TensorError};
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::Expr;
use ein_ir::monoid::Monoid;

/// The options of [`Tensor::conv_transpose1d`], [`Tensor::conv_transpose2d`] and [`Tensor::conv_transpose3d`], by
/// default `PyTorch`'s: stride 1, no padding, dilation 1, one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvTransposeOptions {
    /// Distance at which neighbours of the input are laid down.
    pub stride: PerAxis,
    /// Elements taken away at both ends of the result.
    pub padding: PerAxis,
    /// Elements added at the end of the result; below the stride or the dilation.
    pub output_padding: PerAxis,
    /// Distance from one tap of the kernel to the next.
    pub dilation: PerAxis,
    /// Input and output channels in as many groups.
    pub groups: usize,
}

impl Default for ConvTransposeOptions {
    fn default() -> Self {
        Self { stride: 1.into(), padding: 0.into(), output_padding: 0.into(), dilation: 1.into(), groups: 1 }
    }
}

impl ConvTransposeOptions {
    /// `PyTorch`'s defaults.
    pub fn new() -> ConvTransposeOptions {
        Self::default()
    }

    /// With this stride.
    pub fn stride(self, stride: impl Into<PerAxis>) -> ConvTransposeOptions {
        Self { stride: stride.into(), ..self }
    }

    /// With this padding.
    pub fn padding(self, padding: impl Into<PerAxis>) -> ConvTransposeOptions {
        Self { padding: padding.into(), ..self }
    }

    /// With this output padding.
    pub fn output_padding(self, output_padding: impl Into<PerAxis>) -> ConvTransposeOptions {
        Self { output_padding: output_padding.into(), ..self }
    }

    /// With this dilation.
    pub fn dilation(self, dilation: impl Into<PerAxis>) -> ConvTransposeOptions {
        Self { dilation: dilation.into(), ..self }
    }

    /// With this many groups.
    pub fn groups(self, groups: usize) -> ConvTransposeOptions {
        Self { groups, ..self }
    }
}

impl Tensor {
    /// `torch.nn.functional.conv_transpose1d`: `[n, c, x]` or `[c, x]` with a weight `[c, out / groups, k]`.
    pub fn conv_transpose1d(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvTransposeOptions) -> Tensor {
        Tensor::attempt(|| transposed("conv_transpose1d", 1, self, weight, bias, options))
    }

    /// `torch.nn.functional.conv_transpose2d`: `[n, c, y, x]` or `[c, y, x]` with a weight `[c, out / groups, ky, kx]`.
    ///
    /// ```
    /// use einsummable::{ConvTransposeOptions, DType, Tensor};
    /// let x = Tensor::input("x", [1, 8, 10, 10], DType::F32);
    /// let w = Tensor::parameter("w", [8, 4, 2, 2], DType::F32);
    /// assert_eq!(x.conv_transpose2d(&w, None, &ConvTransposeOptions::new().stride(2)).shape(), [1, 4, 20, 20]);
    /// ```
    pub fn conv_transpose2d(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvTransposeOptions) -> Tensor {
        Tensor::attempt(|| transposed("conv_transpose2d", 2, self, weight, bias, options))
    }

    /// `torch.nn.functional.conv_transpose3d`: `[n, c, z, y, x]` or `[c, z, y, x]` with a weight
    /// `[c, out / groups, kz, ky, kx]`.
    pub fn conv_transpose3d(&self, weight: &Tensor, bias: Option<&Tensor>, options: &ConvTransposeOptions) -> Tensor {
        Tensor::attempt(|| transposed("conv_transpose3d", 3, self, weight, bias, options))
    }
}

/// One axis on which elements of the input are laid down at `stride * x + dilation * k`, and which of the outputs are
/// wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    stride: usize,
    dilation: usize,
    /// Extent of the kernel.
    kernel: usize,
    /// First output wanted.
    first: usize,
    /// Outputs wanted.
    wanted: usize,
}

impl Scatter {
    pub(crate) fn new(stride: usize, dilation: usize, kernel: usize, first: usize, wanted: usize) -> Self {
        Self { stride, dilation, kernel, first, wanted }
    }

    fn divisor(self) -> usize {
        let (mut a, mut b) = (self.stride, self.dilation);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    }

    /// Classes of taps: those that have one.
    pub(crate) fn classes(self) -> usize {
        (self.stride / self.divisor()).min(self.kernel)
    }

    /// Taps of a class, the last ones perhaps beyond the kernel.
    pub(crate) fn taps(self) -> usize {
        self.kernel.div_ceil(self.classes())
    }

    /// Distance in the input between neighbouring taps of a class.
    fn step(self) -> usize {
        self.dilation / self.divisor()
    }

    /// The blocks `m` of outputs `stride * m + remainder` that hold those wanted.
    fn blocks(self) -> (i64, i64) {
        let end = (self.first + self.wanted).div_ceil(self.stride);
        ((self.first / self.stride) as i64, end as i64)
    }

    /// Class `c` gives outputs `stride * (m + skip) + remainder`.
    fn place(self, class: usize) -> (usize, usize) {
        let at = self.dilation * class;
        (at % self.stride, at / self.stride)
    }

    /// The indices `t` at which classes are computed: class `c` at `t` is output `stride * t + dilation * c`.
    fn range(self) -> (i64, i64) {
        let most = self.place(self.classes() - 1).1 as i64;
        let (lo, hi) = self.blocks();
        (lo - most, hi)
    }

    /// How many indices `t` there are.
    pub(crate) fn count(self) -> usize {
        let (lo, hi) = self.range();
        (hi - lo) as usize
    }

    /// The part of the input that is read, with zeros where there is nothing.
    pub(crate) fn read(self, x: &Tensor, axis: usize) -> Result<Tensor, TensorError> {
        let (lo, hi) = self.range();
        x.around(axis, lo - self.behind(), hi, 0.0)
    }

    fn behind(self) -> i64 {
        (self.step() * (self.taps() - 1)) as i64
    }

    /// The index of what [`Scatter::read`] gives for `t` and tap `j` of its class.
    pub(crate) fn index(self, t: usize, j: Option<usize>) -> Affine {
        let mut terms = vec![(t, 1)];
        terms.extend(j.map(|j| (j, -(self.step() as i64))));
        Affine { terms, offset: self.behind() }
    }

    /// The kernel's index for a class and tap.
    pub(crate) fn tap(self, class: Option<usize>, j: Option<usize>) -> Affine {
        let mut terms: Vec<(usize, i64)> = j.map(|j| (j, self.classes() as i64)).into_iter().collect();
        terms.extend(class.map(|c| (c, 1)));
        Affine { terms, offset: 0 }
    }

    /// Whether the classes are the remainders in order, so that a reshape lays them out.
    pub(crate) fn in_order(self) -> bool {
        self.classes() == self.stride && (self.stride == 1 || self.dilation == 1)
    }

    /// The wanted outputs along `axis`, from `t` at `axis` and the classes at the next if there are several.
    pub(crate) fn lay_out(self, x: &Tensor, axis: usize) -> Tensor {
        let (lo, hi) = self.blocks();
        let start = self.first - lo as usize * self.stride;
        if self.stride == 1 {
            return x.narrow(axis as i64, start, self.wanted);
        }
        let phases = if self.in_order() {
            x.clone()
        } else {
            let x = if self.classes() == 1 { x.unsqueeze(axis as i64 + 1) } else { x.clone() };
            let part = |remainder: usize| {
                let class = (0..self.classes()).find(|&c| self.place(c).0 == remainder);
                let start = class.map_or(0, |c| (lo - self.place(c).1 as i64 - self.range().0) as usize);
                let part = x.narrow(axis as i64, start, (hi - lo) as usize);
                match class {
                    Some(c) => part.narrow(axis as i64 + 1, c, 1),
                    None => Tensor::zeros(part.narrow(axis as i64 + 1, 0, 1).shape(), x.dtype()),
                }
            };
            let parts: Vec<Tensor> = (0..self.stride).map(part).collect();
            Tensor::cat(&parts.iter().collect::<Vec<_>>(), axis as i64 + 1)
        };
        phases.flatten(axis as i64, axis as i64 + 1).narrow(axis as i64, start, self.wanted)
    }
}

fn transposed(
    operation: &'static str,
    axes: usize,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTransposeOptions,
) -> Result<Tensor, TensorError> {
    check_operands(operation, axes, x, weight, bias)?;
    let wrong = |reason: String| {
        let shapes = vec![x.shape().to_vec(), weight.shape().to_vec()];
        TensorError::Shape { operation, shapes, reason }
    };
    let lead = x.dim() - axes;
    let (channels, each) = (x.shape()[lead - 1], weight.shape()[1]);
    let groups = options.groups;
    if groups == 0 || weight.shape()[0] != channels || !channels.is_multiple_of(groups) {
        return Err(wrong(format!(
            "{groups} groups: the input has {channels} channels and the weight {}; they must be equal and a \
             multiple of the groups",
            weight.shape()[0]
        )));
    }
    let out = each.checked_mul(groups).ok_or_else(|| wrong(format!("{each} channels in each of {groups} groups")))?;
    if let Some(bias) = bias {
        check_bias(operation, bias, out)?;
    }
    let scatters = scatters(&x.shape()[lead..], &weight.shape()[2..], options).map_err(wrong)?;
    let mut input = x.clone();
    let mut kernel = weight.clone();
    for (n, s) in scatters.iter().enumerate() {
        input = s.read(&input, lead + n)?;
        kernel = kernel.around(2 + n, 0, (s.classes() * s.taps()) as i64, 0.0)?;
    }

    // [n, g, out of the group, (t, class)… | in of the group, taps of a class…]
    let per_group = channels / groups;
    let mut labels = Labels::default();
    let batch = (lead == 2).then(|| labels.add("n", x.shape()[0]));
    let group = (groups > 1).then(|| labels.add("g", groups));
    let to = (groups == 1 || each > 1).then(|| labels.add("o", each));
    let names = spatial_names(axes);
    let mut places = Vec::new();
    let mut shape: Vec<i64> = batch.map(|_| x.shape()[0] as i64).into_iter().collect();
    shape.push(out as i64);
    for (name, s) in names.iter().zip(&scatters) {
        let t = labels.add(*name, s.count());
        places.push((t, (s.classes() > 1).then(|| labels.add(format!("c{name}"), s.classes()))));
        shape.extend([s.count() as i64].into_iter().chain((s.classes() > 1).then_some(s.classes() as i64)));
    }
    let rank = labels.0.len();
    let from = (groups == 1 || per_group > 1).then(|| labels.add("i", per_group));
    let taps: Vec<Option<usize>> = (names.iter().zip(&scatters))
        .map(|(name, s)| (s.taps() > 1).then(|| labels.add(format!("k{name}"), s.taps())))
        .collect();
    let mut read: Vec<Affine> = batch.map(Affine::label).into_iter().collect();
    read.push(channel(group, per_group, from));
    read.extend((0..axes).map(|n| scatters[n].index(places[n].0, taps[n])));
    let mut weigh = vec![channel(group, per_group, from), to.map_or(Affine::constant(0), Affine::label)];
    weigh.extend((0..axes).map(|n| scatters[n].tap(places[n].1, taps[n])));
    let einsum = Einsum {
        rank,
        accesses: vec![Access { axes: read }, Access { axes: weigh }],
        join: Expr::product(2, x.dtype()),
        monoid: Monoid::Sum,
        dtype: x.dtype(),
        labels: labels.0,
    };
    let product = Tensor::row_einsum(operation, einsum, &[&input, &kernel]);
    // Where every output is some class at some `t`, the bias comes before all views and so can be the epilogue.
    let early = scatters.iter().all(|s| s.in_order());
    let y = if early { add_bias(operation, &product, bias, channel(group, each, to))? } else { product };
    let mut y = y.reshape(&shape);
    for (n, s) in scatters.iter().enumerate() {
        y = s.lay_out(&y, lead + n);
    }
    if early { Ok(y) } else { add_bias(operation, &y, bias, Affine::label(lead - 1)) }
}

/// The axes of a transposed convolution, from what a user gave.
fn scatters(extents: &[usize], kernel: &[usize], options: &ConvTransposeOptions) -> Result<Vec<Scatter>, String> {
    let axes = extents.len();
    if kernel.contains(&0) {
        return Err(format!("the kernel size {kernel:?} must be 1 or more on every axis"));
    }
    let stride = options.stride.positive("the stride", axes)?;
    let dilation = options.dilation.positive("the dilation", axes)?;
    let padding = options.padding.each("the padding", axes)?;
    let more = options.output_padding.each("the output padding", axes)?;
    let mut found = Vec::new();
    for n in 0..axes {
        if more[n] >= stride[n].max(dilation[n]) {
            return Err(format!(
                "the output padding {} must be below the stride {} or the dilation {}",
                more[n], stride[n], dilation[n]
            ));
        }
        let reach = |step: usize, count: usize| (step as i128).saturating_mul(count as i128 - 1);
        let full = reach(stride[n], extents[n]).saturating_add(reach(dilation[n], kernel[n])).saturating_add(1);
        let wanted = (full - 2 * padding[n] as i128).saturating_add(more[n] as i128);
        let small = full < 1 << 40 && padding[n] < 1 << 40;
        let wanted = usize::try_from(wanted).ok().filter(|&w| w > 0 && small).ok_or_else(|| {
            let (pad, more) = (padding[n], more[n]);
            format!("the result would be {full} - 2 * {pad} + {more} = {wanted} long on spatial axis {n}")
        })?;
        found.push(Scatter::new(stride[n], dilation[n], kernel[n], padding[n], wanted));
    }
    Ok(found)
}
