//! Windows as axes, and back: `unfold` reads an axis at `step * n + k`, `fold` sums what overlaps.

use super::conv::Labels;
use super::conv_transpose::Scatter;
use super::map::map_over;
use super::window::{PerAxis, Window};
use super::{Tensor, TensorError};
use ein_ir::einsum::{Access, Affine, Einsum};
use ein_ir::expr::Expr;
use ein_ir::monoid::Monoid;

/// The options of [`Tensor::im2col`] and [`Tensor::col2im`], by default `PyTorch`'s: dilation 1, no padding, stride 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldOptions {
    /// Distance from one tap of a window to the next.
    pub dilation: PerAxis,
    /// Zeros before and after.
    pub padding: PerAxis,
    /// Distance from one window to the next.
    pub stride: PerAxis,
}

impl Default for UnfoldOptions {
    fn default() -> Self {
        Self { dilation: 1.into(), padding: 0.into(), stride: 1.into() }
    }
}

impl UnfoldOptions {
    /// `PyTorch`'s defaults.
    pub fn new() -> UnfoldOptions {
        Self::default()
    }

    /// With this dilation.
    pub fn dilation(self, dilation: impl Into<PerAxis>) -> UnfoldOptions {
        Self { dilation: dilation.into(), ..self }
    }

    /// With this padding.
    pub fn padding(self, padding: impl Into<PerAxis>) -> UnfoldOptions {
        Self { padding: padding.into(), ..self }
    }

    /// With this stride.
    pub fn stride(self, stride: impl Into<PerAxis>) -> UnfoldOptions {
        Self { stride: stride.into(), ..self }
    }
}

impl Tensor {
    /// Windows of `size` along an axis, `step` apart, as a new last axis: `torch.Tensor.unfold`.
    pub fn unfold(&self, axis: i64, size: usize, step: usize) -> Tensor {
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            if own.is_empty() && (-1..=0).contains(&axis) {
                return if size <= 1 && step > 0 {
                    Ok(self.reshape(&[1]).narrow(0, 0, size))
                } else {
                    Err(self.shape_error("unfold", format!("windows of {size} in steps of {step} of a number")))
                };
            }
            let at = self.axis("unfold", axis)?;
            if size > own[at] || step == 0 {
                let reason = format!(
                    "windows of {size} in steps of {step} along axis {at}, which is {} long; steps are 1 or more",
                    own[at]
                );
                return Err(self.shape_error("unfold", reason));
            }
            let mut shape = own.clone();
            shape[at] = (own[at] - size) / step + 1;
            shape.push(size);
            let mut access = Access::labels(&(0..own.len()).collect::<Vec<_>>());
            access.axes[at] = Affine { terms: vec![(at, step as i64), (own.len(), 1)], offset: 0 };
            map_over("unfold", &shape, vec![access], &[self], |_, r| Ok(r[0]))
        })
    }

    /// `torch.nn.functional.unfold`: the windows of `[n, c, y, x]` or `[c, y, x]` as columns
    /// `[n, c * ky * kx, windows]`.
    pub fn im2col(&self, kernel_size: impl Into<PerAxis>, options: &UnfoldOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            let wrong = |reason: String| self.shape_error("im2col", reason);
            if own.len() != 3 && own.len() != 4 {
                return Err(wrong("[batch, channels, y, x] or [channels, y, x] is expected".into()));
            }
            if own.len() == 3 {
                return Ok(self
                    .unsqueeze(0)
                    .im2col(PerAxis::from(kernel.each("the kernel size", 2).map_err(wrong)?.as_slice()), options)
                    .squeeze(&[0]));
            }
            let frame = Frame::of(&kernel, options, &own[2..]).map_err(wrong)?;
            let pairs: Vec<(i64, i64)> = frame.padding.iter().rev().map(|&p| (p as i64, p as i64)).collect();
            let padded = self.pad(&pairs, 0.0);
            padded.made()?;
            let [ky, kx] = [frame.windows[0].kernel, frame.windows[1].kernel];
            let [y, x] = [frame.counts[0], frame.counts[1]];
            // [n, c, ky, kx, y, x]
            let axes = vec![
                Affine::label(0),
                Affine::label(1),
                frame.windows[0].index(4, (ky > 1).then_some(2)),
                frame.windows[1].index(5, (kx > 1).then_some(3)),
            ];
            let shape = [own[0], own[1], ky, kx, y, x];
            let columns = map_over("im2col", &shape, vec![Access { axes }], &[&padded], |_, r| Ok(r[0]))?;
            Ok(columns.flatten(4, 5).flatten(1, 3))
        })
    }

    /// `torch.nn.functional.fold`: the sum of columns `[n, c * ky * kx, windows]`, without `n` too, laid down where
    /// [`Tensor::im2col`] would have read them in an image of `output_size`.
    pub fn col2im(&self, output_size: [usize; 2], kernel_size: impl Into<PerAxis>, options: &UnfoldOptions) -> Tensor {
        let kernel = kernel_size.into();
        Tensor::attempt(|| {
            let own = self.ty()?.shape.clone();
            let wrong = |reason: String| self.shape_error("col2im", reason);
            let frame = Frame::of(&kernel, options, &output_size).map_err(wrong)?;
            let taps = frame.windows[0].kernel.saturating_mul(frame.windows[1].kernel);
            let places = frame.counts[0].saturating_mul(frame.counts[1]);
            let lead = own.len().wrapping_sub(2);
            if lead > 1 || !own[lead].is_multiple_of(taps) || own[lead + 1] != places {
                return Err(wrong(format!(
                    "[batch, channels * {taps}, {places}] or [channels * {taps}, {places}] is expected: {taps} taps, and \
                     {} by {} windows in {output_size:?}",
                    frame.counts[0], frame.counts[1]
                )));
            }
            let batch = if lead == 1 { own[0] } else { 1 };
            let channels = own[lead] / taps;
            let apart =
                [batch, channels, frame.windows[0].kernel, frame.windows[1].kernel, frame.counts[0], frame.counts[1]];
            frame
                .lay_down(&self.reshape(&apart.map(|n| n as i64)), output_size)
                .map(|y| if lead == 0 { y.squeeze(&[0]) } else { y })
        })
    }
}

/// The windows of an image.
struct Frame {
    windows: Vec<Window>,
    padding: Vec<usize>,
    counts: Vec<usize>,
}

impl Frame {
    fn of(kernel: &PerAxis, options: &UnfoldOptions, image: &[usize]) -> Result<Self, String> {
        let kernel = kernel.positive("the kernel size", 2)?;
        let windows = Window::of(&kernel, &options.stride, &options.dilation)?;
        let padding = options.padding.each("the padding", 2)?;
        let mut counts = Vec::new();
        for ((window, &pad), &extent) in windows.iter().zip(&padding).zip(image) {
            let padded = extent.saturating_add(pad).saturating_add(pad);
            counts.push(window.count(padded).filter(|_| extent > 0).ok_or_else(|| {
                format!("an axis of {extent}, {padded} with its padding, is shorter than a window's {}", window.reach())
            })?);
        }
        Ok(Self { windows, padding, counts })
    }

    /// The sum of `[n, c, ky, kx, y, x]` as an image `[n, c, y, x]`.
    fn lay_down(&self, columns: &Tensor, image: [usize; 2]) -> Result<Tensor, TensorError> {
        let axis = |n: usize| {
            let Window { kernel, stride, dilation } = self.windows[n];
            Scatter::new(stride, dilation, kernel, self.padding[n], image[n])
        };
        let axes = [axis(0), axis(1)];
        let mut x = columns.clone();
        for (n, s) in axes.iter().enumerate() {
            x = s.read(&x.around(2 + n, 0, (s.classes() * s.taps()) as i64, 0.0)?, 4 + n)?;
        }
        let mut labels = Labels::default();
        let (batch, channel) = (labels.add("n", x.shape()[0]), labels.add("c", x.shape()[1]));
        let names = ["y", "x"];
        let places = [0, 1].map(|n| {
            let t = labels.add(names[n], axes[n].count());
            (t, (axes[n].classes() > 1).then(|| labels.add(format!("c{}", names[n]), axes[n].classes())))
        });
        let rank = labels.0.len();
        let taps = [0, 1].map(|n| (axes[n].taps() > 1).then(|| labels.add(format!("k{}", names[n]), axes[n].taps())));
        let mut read = vec![Affine::label(batch), Affine::label(channel)];
        read.extend([0, 1].map(|n| axes[n].tap(places[n].1, taps[n])));
        read.extend([0, 1].map(|n| axes[n].index(places[n].0, taps[n])));
        let einsum = Einsum {
            labels: labels.0,
            rank,
            accesses: vec![Access { axes: read }],
            join: Expr::operand(x.dtype()),
            monoid: Monoid::Sum,
            dtype: x.dtype(),
        };
        let sum = Tensor::row_einsum("col2im", einsum, &[&x]);
        Ok(axes.iter().enumerate().fold(sum, |y, (n, s)| s.lay_out(&y, 2 + n)))
    }
}
