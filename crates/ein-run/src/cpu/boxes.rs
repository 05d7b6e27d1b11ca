//! Copies of boxes: bytes from one strided place to another.

use super::strided::{Few, shape, strides};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ein_ir::monoid::{Field, Form};
use ein_ir::region::Region;
use std::ops::Range;

/// One loop of a copy: how often, and how many elements further on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Rounds.
    pub extent: usize,
    /// Step in the source.
    pub from: i64,
    /// Step in the destination.
    pub to: i64,
}

/// A copy of a box, worked out once and done often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxCopy {
    at: i64,
    into: i64,
    /// Outermost first; `None` where nothing is copied.
    loops: Option<Few<Loop>>,
    element: usize,
}

impl BoxCopy {
    /// Of `region` out of the box `from` into the box `to`, both row-major, of elements of `element` bytes. All in the
    /// same coordinates; `region` lies in both.
    pub fn new(from: &Region, to: &Region, region: &Region, element: usize) -> Self {
        let (from_steps, to_steps) = (strides(&shape(&from.0)), strides(&shape(&to.0)));
        let mut loops = Few::new();
        let (mut at, mut into) = (0, 0);
        for axis in 0..region.rank() {
            let i = region.0[axis];
            if i.is_empty() {
                return Self { at: 0, into: 0, loops: None, element };
            }
            at += (i.lo - from.0[axis].lo) * from_steps[axis];
            into += (i.lo - to.0[axis].lo) * to_steps[axis];
            loops.push(Loop { extent: i.len(), from: from_steps[axis] as i64, to: to_steps[axis] as i64 });
        }
        merge(&mut loops);
        Self { at: at as i64, into: into as i64, loops: Some(loops), element }
    }

    /// Of elements of `element` bytes by nested loops, outermost first, from element `at` to element `into`.
    pub(crate) fn along(at: i64, into: i64, mut loops: Few<Loop>, element: usize) -> Self {
        let any = loops.iter().all(|l| l.extent > 0);
        merge(&mut loops);
        Self { at, into, loops: any.then_some(loops), element }
    }

    /// The first element in the source, where those that are copied lie side by side in both, as many as there are.
    pub(crate) fn line(&self) -> Option<usize> {
        match self.loops.as_deref()? {
            [] | [Loop { from: 1, to: 1, .. }] => Some(self.at as usize),
            _ => None,
        }
    }

    /// Copies. Source and target are aligned to the element.
    pub fn run(&self, source: &[u8], target: &mut [u8]) {
        if let Some(loops) = &self.loops {
            of_size(source, self.at, target, self.into, loops, self.element);
        }
    }
}

/// Copies `region` out of the box `from` into the box `to`, both row-major. All in the same coordinates;
/// `region` lies in both.
pub fn copy_region(source: &[u8], from: &Region, target: &mut [u8], to: &Region, region: &Region, element: usize) {
    BoxCopy::new(from, to, region, element).run(source, target);
}

/// A copy of a box of all fields of a value, worked out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldsCopy(Vec<(Range<usize>, Range<usize>, BoxCopy)>);

impl FieldsCopy {
    /// Of `region` out of a value of the box `from` into one of the box `to`, both stored as `form`.
    pub fn new(form: &Form, from: &Region, to: &Region, region: &Region) -> Self {
        let (at, into) = (form.layout(from).0, form.layout(to).0);
        let field = |(n, field): (usize, &Field)| {
            let (from, to) = (from.project(&field.axes), to.project(&field.axes));
            let (bytes, region) = (field.dtype.bytes(), region.project(&field.axes));
            let (source, target) = (from.volume() * bytes, to.volume() * bytes);
            (at[n]..at[n] + source, into[n]..into[n] + target, BoxCopy::new(&from, &to, &region, bytes))
        };
        Self(form.fields.iter().enumerate().map(field).collect())
    }

    /// Copies. Source and target are aligned to the elements.
    pub fn run(&self, source: &[u8], target: &mut [u8]) {
        for (from, to, copy) in &self.0 {
            copy.run(&source[from.clone()], &mut target[to.clone()]);
        }
    }
}

/// Copies `region` of every field out of a value of the box `from` into one of the box `to`, both stored as `form`.
pub fn copy_fields(form: &Form, source: &[u8], from: &Region, target: &mut [u8], to: &Region, region: &Region) {
    FieldsCopy::new(form, from, to, region).run(source, target);
}

fn of_size(source: &[u8], at: i64, target: &mut [u8], into: i64, loops: &[Loop], element: usize) {
    match element {
        1 => nest(source, at, target, into, loops),
        2 => nest::<u16>(cast_slice(source), at, cast_slice_mut(target), into, loops),
        4 => nest::<u32>(cast_slice(source), at, cast_slice_mut(target), into, loops),
        8 => nest::<u64>(cast_slice(source), at, cast_slice_mut(target), into, loops),
        other => unreachable!("no element has {other} bytes"),
    }
}

/// Drops loops of one round and joins neighbours that walk on as one.
fn merge(loops: &mut Few<Loop>) {
    loops.retain(|l| l.extent != 1);
    let mut at = loops.len();
    while at > 1 {
        at -= 1;
        let (outer, inner) = (loops[at - 1], loops[at]);
        let rounds = inner.extent as i64;
        if outer.from == inner.from * rounds && outer.to == inner.to * rounds {
            loops[at - 1] = Loop { extent: outer.extent * inner.extent, ..inner };
            loops.remove(at);
            // The joined loop may join the one that now follows it no further: that pair was tried before.
        }
    }
}

fn nest<T: Pod>(source: &[T], at: i64, target: &mut [T], into: i64, loops: &[Loop]) {
    match loops {
        [] => target[into as usize] = source[at as usize],
        [l] => line(source, at, target, into, *l),
        [outer, inner] if inner.from != 1 && outer.from == 1 => transpose(source, at, target, into, *outer, *inner),
        [outer, rest @ ..] => {
            for n in 0..outer.extent as i64 {
                nest(source, at + n * outer.from, target, into + n * outer.to, rest);
            }
        }
    }
}

fn line<T: Pod>(source: &[T], at: i64, target: &mut [T], into: i64, l: Loop) {
    let (from, to) = (at as usize, into as usize);
    match (l.from, l.to) {
        (1, 1) => target[to..to + l.extent].copy_from_slice(&source[from..from + l.extent]),
        (0, 1) => target[to..to + l.extent].fill(source[from]),
        (step, 1) => {
            for (n, out) in target[to..to + l.extent].iter_mut().enumerate() {
                *out = source[(at + n as i64 * step) as usize];
            }
        }
        (step, stride) => {
            for n in 0..l.extent as i64 {
                target[(into + n * stride) as usize] = source[(at + n * step) as usize];
            }
        }
    }
}

/// Where source and target are contiguous along different loops: small squares, so that cache lines of
/// both are used whole.
fn transpose<T: Pod>(source: &[T], at: i64, target: &mut [T], into: i64, outer: Loop, inner: Loop) {
    const SIDE: usize = 16;
    for o in (0..outer.extent).step_by(SIDE) {
        for i in (0..inner.extent).step_by(SIDE) {
            let rounds = SIDE.min(inner.extent - i);
            for n in o..outer.extent.min(o + SIDE) {
                let (from, to) = (at + n as i64 * outer.from, into + n as i64 * outer.to);
                let i = i as i64;
                let square = Loop { extent: rounds, ..inner };
                line(source, from + i * inner.from, target, to + i * inner.to, square);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_copied_in_place() {
        let source: Vec<u8> = (0..12).collect();
        let (from, to) = (Region::of(&[(1, 4), (2, 6)]), Region::of(&[(2, 5), (0, 5)]));
        let mut target = vec![99; 15];
        copy_region(&source, &from, &mut target, &to, &Region::of(&[(2, 4), (3, 5)]), 1);
        assert_eq!(target, [99, 99, 99, 5, 6, 99, 99, 99, 9, 10, 99, 99, 99, 99, 99]);
    }

    #[test]
    fn loops_join_where_they_walk_on() {
        let l = |extent, from, to| Loop { extent, from, to };
        let check = |before: &[Loop], after: &[Loop]| {
            let mut loops = Few::from_slice(before);
            merge(&mut loops);
            assert_eq!(&loops[..], after);
        };
        check(&[l(2, 12, 12), l(3, 4, 4), l(4, 1, 1)], &[l(24, 1, 1)]);
        check(&[l(2, 12, 12), l(1, 7, 9), l(3, 4, 4), l(4, 1, 2)], &[l(6, 4, 4), l(4, 1, 2)]);
        check(&[l(2, 0, 12), l(3, 0, 4), l(4, 1, 1)], &[l(6, 0, 4), l(4, 1, 1)]);
        check(&[l(1, 5, 5)], &[]);
    }

    #[test]
    fn transposes_are_exact() {
        let (rows, columns) = (37, 21);
        let source: Vec<u32> = (0..rows * columns).collect();
        let mut target = vec![0u32; source.len()];
        let loops = Few::from_slice(&[
            Loop { extent: columns as usize, from: 1, to: rows as i64 },
            Loop { extent: rows as usize, from: columns as i64, to: 1 },
        ]);
        BoxCopy::along(0, 0, loops, 4).run(cast_slice(&source), cast_slice_mut(&mut target));
        let expected: Vec<u32> = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c)).collect();
        assert_eq!(target, expected);
    }
}
