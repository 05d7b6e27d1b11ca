//! Copies of boxes as what copy engines do: layers of lines of bytes.

use ein_ir::monoid::Form;
use ein_ir::region::{Region, strides};

/// A copy of `layers` times `lines` lines of `width` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Where the first line begins in what is read, and how lines follow.
    pub from: Pitch,
    /// The same in what is written.
    pub to: Pitch,
    /// Bytes of a line.
    pub width: u64,
    /// Lines of a layer.
    pub lines: u64,
    /// Layers.
    pub layers: u64,
}

/// Most bytes from one line to the next that copy engines take (`CU_DEVICE_ATTRIBUTE_MAX_PITCH`).
const MAX_PITCH: u64 = (1 << 31) - 1;

/// Where lines lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pitch {
    /// Bytes before the first.
    pub offset: u64,
    /// Bytes from one line to the next.
    pub pitch: u64,
    /// Lines from one layer to the next.
    pub lines: u64,
}

impl Lines {
    /// Consecutive bytes.
    pub fn plain(from: u64, to: u64, bytes: u64) -> Self {
        let at = |offset| Pitch { offset, pitch: bytes, lines: 1 };
        Self { from: at(from), to: at(to), width: bytes, lines: 1, layers: 1 }
    }

    /// Bytes that are copied.
    pub fn bytes(&self) -> u64 {
        self.width * self.lines * self.layers
    }

    /// Bytes from the first that is read to the last, and the same of what is written.
    pub fn spans(&self) -> [u64; 2] {
        [self.from, self.to].map(|p| ((self.layers - 1) * p.lines + self.lines - 1) * p.pitch + self.width)
    }
}

/// The copies of a box of every field out of a value of the box `from` into one of the box `to`, both stored as `form`.
/// None where the box is empty.
pub fn of_value(form: &Form, from: &Region, to: &Region, region: &Region) -> Vec<Lines> {
    let (at, into) = (form.layout(from).0, form.layout(to).0);
    let field = |(n, field): (usize, &ein_ir::monoid::Field)| {
        let [from, to, region] = [from, to, region].map(|r| r.project(&field.axes));
        of_box(&from, &to, &region, field.dtype.bytes(), [at[n] as u64, into[n] as u64])
    };
    form.fields.iter().enumerate().flat_map(field).flat_map(split).collect()
}

/// A copy as copy engines take it: lines that lie too far apart are copied one by one. They are few, being so far apart.
fn split(copy: Lines) -> Vec<Lines> {
    if copy.lines * copy.layers == 1 || copy.from.pitch.max(copy.to.pitch) <= MAX_PITCH {
        return vec![copy];
    }
    let line = |layer: u64, line: u64| {
        let [from, to] = [copy.from, copy.to].map(|p| p.offset + (layer * p.lines + line) * p.pitch);
        Lines::plain(from, to, copy.width)
    };
    (0..copy.layers).flat_map(|layer| (0..copy.lines).map(move |n| line(layer, n))).collect()
}

/// The copies of a box out of one row-major box into another that begin so many bytes in.
fn of_box(from: &Region, to: &Region, region: &Region, element: usize, begin: [u64; 2]) -> Vec<Lines> {
    if region.is_empty() {
        return Vec::new();
    }
    let steps =
        [from, to].map(|whole| strides(&whole.shape()).iter().map(|s| (s * element) as u64).collect::<Vec<_>>());
    let mut first = begin;
    for ((first, whole), steps) in first.iter_mut().zip([from, to]).zip(&steps) {
        *first += (0..region.rank()).map(|a| (region.0[a].lo - whole.0[a].lo) as u64 * steps[a]).sum::<u64>();
    }
    // Loops from the innermost: rounds, and bytes further on either side. What walks on is one loop.
    let mut loops = vec![(element as u64, [1, 1])];
    for axis in (0..region.rank()).rev() {
        let (rounds, step) = (region.0[axis].len() as u64, [steps[0][axis], steps[1][axis]]);
        if rounds == 1 {
            continue;
        }
        let last = loops.last_mut().expect("the first stays");
        if step.iter().zip(&last.1).all(|(step, inner)| *step == inner * last.0) {
            last.0 *= rounds;
        } else {
            loops.push((rounds, step));
        }
    }
    let width = loops[0].0;
    let none = (1, [width, width]);
    let (line, layer) = (*loops.get(1).unwrap_or(&none), loops.get(2));
    let pitch = |side: usize, offset| {
        let pitch = line.1[side];
        Pitch { offset, pitch, lines: layer.map_or(line.0, |layer| layer.1[side] / pitch) }
    };
    let mut all = vec![first];
    for (rounds, step) in loops.iter().skip(3) {
        all = (0..*rounds).flat_map(|n| all.iter().map(move |at| [at[0] + n * step[0], at[1] + n * step[1]])).collect();
    }
    let lines = |at: [u64; 2]| Lines {
        from: pitch(0, at[0]),
        to: pitch(1, at[1]),
        width,
        lines: line.0,
        layers: layer.map_or(1, |l| l.0),
    };
    all.into_iter().map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::dtype::DType;
    use ein_run::cpu::boxes;

    /// What copy engines do.
    fn run(copy: &Lines, source: &[u8], target: &mut [u8]) {
        for layer in 0..copy.layers {
            for line in 0..copy.lines {
                let at = |p: Pitch| (p.offset + (layer * p.lines + line) * p.pitch) as usize;
                let (from, to, width) = (at(copy.from), at(copy.to), copy.width as usize);
                target[to..to + width].copy_from_slice(&source[from..from + width]);
            }
        }
    }

    fn check(from: &[(usize, usize)], to: &[(usize, usize)], region: &[(usize, usize)], copies: usize) {
        let [from, to, region] = [from, to, region].map(Region::of);
        for dtype in [DType::U8, DType::BF16, DType::F64] {
            let form = Form::finished(dtype, from.rank());
            let source: Vec<u8> = (0..form.bytes(&from)).map(|n| (n % 251) as u8).collect();
            let mut expected = vec![255; form.bytes(&to)];
            let mut found = expected.clone();
            boxes::copy_fields(&form, &source, &from, &mut expected, &to, &region);
            let all = of_value(&form, &from, &to, &region);
            for copy in &all {
                run(copy, &source, &mut found);
                let ends = [copy.from.offset, copy.to.offset].map(|o| o as usize);
                assert!(
                    ends[0] + copy.spans()[0] as usize <= source.len()
                        && ends[1] + copy.spans()[1] as usize <= found.len()
                );
            }
            assert_eq!(found, expected, "{from} {to} {region}");
            assert_eq!(all.len(), copies, "{from} {to} {region}: {all:?}");
            assert_eq!(all.iter().map(Lines::bytes).sum::<u64>(), form.bytes(&region) as u64);
        }
    }

    #[test]
    fn lines_far_apart_are_copied_one_by_one() {
        let of = |columns: usize, cut: usize| {
            let (form, to) = (Form::finished(DType::U8, 2), Region::of(&[(2, 4), (0, cut)]));
            of_value(&form, &Region::of(&[(0, 6), (0, columns)]), &to, &to)
        };
        let far = 4_000_000_000;
        let plain = [2, 3].map(|row| Lines::plain(row * far, (row - 2) * 1000, 1000));
        assert_eq!(of(far as usize, 1000), plain);
        // Side by side they are one.
        assert_eq!(of(far as usize, far as usize), [Lines::plain(2 * far, 0, 2 * far)]);
        assert_eq!((of((1 << 31) - 1, 1000).len(), of(1 << 31, 1000).len()), (1, 2));
    }

    #[test]
    fn boxes_are_layers_of_lines() {
        check(&[], &[], &[], 1);
        check(&[(0, 7)], &[(0, 7)], &[(0, 7)], 1);
        check(&[(1, 7)], &[(0, 9)], &[(3, 5)], 1);
        check(&[(0, 4), (0, 6)], &[(1, 3), (0, 6)], &[(1, 3), (0, 6)], 1);
        check(&[(0, 4), (0, 6)], &[(1, 3), (2, 5)], &[(1, 3), (2, 5)], 1);
        check(&[(0, 4), (0, 6), (1, 4)], &[(1, 3), (2, 5), (1, 4)], &[(1, 3), (2, 5), (1, 4)], 1);
        check(&[(0, 4), (0, 6), (1, 4)], &[(1, 3), (2, 5), (0, 4)], &[(1, 3), (2, 5), (2, 3)], 1);
        // Four loops, of which engines do three.
        check(
            &[(0, 3), (0, 5), (0, 7), (0, 4)],
            &[(0, 3), (1, 5), (2, 6), (1, 4)],
            &[(1, 3), (1, 4), (2, 5), (1, 3)],
            2,
        );
        check(&[(0, 4), (0, 6)], &[(0, 4), (0, 6)], &[(2, 2), (0, 6)], 0);
    }
}
