//! Channels to pixels and back, and channels among one another. Views alone.

use super::{Tensor, TensorError};

impl Tensor {
    /// `torch.nn.functional.pixel_shuffle`: `[…, c * factor², y, x]` to `[…, c, y * factor, x * factor]`.
    pub fn pixel_shuffle(&self, factor: usize) -> Tensor {
        Tensor::attempt(|| {
            let (lead, [channels, y, x]) = self.image("pixel_shuffle")?;
            let square =
                factor.checked_mul(factor).filter(|&n| n > 0 && channels.is_multiple_of(n)).ok_or_else(|| {
                    self.shape_error(
                        "pixel_shuffle",
                        format!("{channels} channels are no multiple of {factor} squared"),
                    )
                })?;
            let apart = [channels / square, factor, factor, y, x];
            Ok(self.shuffled(&lead, &apart, &[0, 3, 1, 4, 2], &[channels / square, y * factor, x * factor]))
        })
    }

    /// `torch.nn.functional.pixel_unshuffle`: `[…, c, y * factor, x * factor]` to `[…, c * factor², y, x]`.
    pub fn pixel_unshuffle(&self, factor: usize) -> Tensor {
        Tensor::attempt(|| {
            let (lead, [channels, y, x]) = self.image("pixel_unshuffle")?;
            if factor == 0 || !y.is_multiple_of(factor) || !x.is_multiple_of(factor) {
                let reason = format!("an image of {y} by {x} is no multiple of {factor} on both axes");
                return Err(self.shape_error("pixel_unshuffle", reason));
            }
            let (y, x) = (y / factor, x / factor);
            let apart = [channels, y, factor, x, factor];
            Ok(self.shuffled(&lead, &apart, &[0, 2, 4, 1, 3], &[channels * factor * factor, y, x]))
        })
    }

    /// `torch.nn.functional.channel_shuffle`: channel `g * per + c` of axis 1 becomes channel `c * groups + g`.
    pub fn channel_shuffle(&self, groups: usize) -> Tensor {
        Tensor::attempt(|| {
            let own = &self.ty()?.shape;
            let channels = own.get(1).copied().filter(|_| own.len() > 2).ok_or_else(|| {
                self.shape_error("channel_shuffle", "batch, channels and a spatial axis are expected".into())
            })?;
            if groups == 0 || !channels.is_multiple_of(groups) {
                let reason = format!("{channels} channels are no multiple of {groups} groups");
                return Err(self.shape_error("channel_shuffle", reason));
            }
            let apart = [&[groups, channels / groups], &own[2..]].concat();
            let mut order: Vec<usize> = (0..apart.len()).collect();
            order.swap(0, 1);
            Ok(self.shuffled(&own[..1], &apart, &order, &own[1..]))
        })
    }

    /// The axes before an image, and the image's channels, rows and columns.
    fn image(&self, operation: &'static str) -> Result<(Vec<usize>, [usize; 3]), TensorError> {
        match self.ty()?.shape.as_slice() {
            [lead @ .., channels, y, x] => Ok((lead.to_vec(), [*channels, *y, *x])),
            _ => Err(self.shape_error(operation, "channels, rows and columns are expected last".into())),
        }
    }

    /// The axes after `lead` taken apart, put in another order and merged.
    fn shuffled(&self, lead: &[usize], apart: &[usize], order: &[usize], to: &[usize]) -> Tensor {
        let whole = |axes: &[usize]| lead.iter().chain(axes).map(|&n| n as i64).collect::<Vec<i64>>();
        let order: Vec<i64> = (0..lead.len()).chain(order.iter().map(|n| lead.len() + n)).map(|n| n as i64).collect();
        self.reshape(&whole(apart)).permute(&order).reshape(&whole(to))
    }
}
