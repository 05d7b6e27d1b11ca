//! Memory for the time of a kernel: lists that a thread takes from those it has used before, so that what kernels need
//! beside their values is not allocated again with every run.

use super::lanes::{Lane, Segment};
use bytemuck::{Pod, cast_slice_mut};
use ein_ir::dtype::DType;
use ein_ir::expr::Row;
use ein_ir::region::{Interval, Region};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The first elements of a list that is made as long as it must be; what they are is left over or `empty`.
pub(super) fn first<T: Copy>(list: &mut Vec<T>, count: usize, empty: T) -> &mut [T] {
    if list.len() < count {
        list.resize(count, empty);
    }
    &mut list[..count]
}

/// Memory of a thread that one use has after another, each for its own type; it grows to the largest and is kept, so that
/// later runs allocate nothing.
#[derive(Debug, Default)]
pub(crate) struct Room(Vec<u64>);

impl Room {
    /// So many elements; what they are is left over.
    pub(crate) fn of<T: Pod>(&mut self, count: usize) -> &mut [T] {
        /// Addresses are asked for in steps: what nobody writes to is no memory yet, and what is left behind by one that
        /// was too small would be.
        const STEP: usize = 1 << 20;
        let bytes = count * size_of::<T>();
        if size_of_val(self.0.as_slice()) < bytes {
            // What was there is not held beside what comes.
            self.0 = Vec::new();
            self.0 = vec![0; bytes.next_multiple_of(STEP) / size_of::<u64>()];
        }
        &mut cast_slice_mut(&mut self.0)[..count]
    }
}

/// What lists are kept of.
pub(crate) trait Kept: Sized + 'static {
    /// The lists that this thread has and does not use; `None` while the thread ends.
    fn with<R>(lists: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> Option<R>;
}

macro_rules! kept {
    ($($of:ty: $lists:ident),*) => {
        $(
            thread_local! {
                static $lists: RefCell<Vec<Vec<$of>>> = const { RefCell::new(Vec::new()) };
            }
            impl Kept for $of {
                fn with<R>(lists: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> Option<R> {
                    $lists.try_with(|all| lists(&mut all.borrow_mut())).ok()
                }
            }
        )*
    };
}

kept!(f32: F32, f64: F64, i64: I64, usize: PLACES, (i64, usize): PAIRS, (f64, i64): EXTREMES, (i64, i64): WHOLES);
kept!(Interval: INTERVALS, bool: FLAGS, u64: SETS, (Row, DType): ROWS, Lane: LANES, Segment: SEGMENTS);

/// A list that goes back where it came from.
pub(crate) struct Buffer<T: Kept>(Vec<T>);

impl<T: Kept> Buffer<T> {
    /// An empty one with room for so many. Lists are told apart by their room alone: the smallest that suffices.
    pub(crate) fn with_room(count: usize) -> Self {
        let take = |lists: &mut Vec<Vec<T>>| {
            let fits = |n: &usize| lists[*n].capacity() >= count;
            let best = (0..lists.len()).filter(fits).min_by_key(|&n| lists[n].capacity());
            best.map(|n| lists.swap_remove(n))
        };
        Self(T::with(take).flatten().unwrap_or_else(|| Vec::with_capacity(count)))
    }

    /// So many of one value.
    pub(crate) fn of(value: T, count: usize) -> Self
    where
        T: Clone,
    {
        let mut list = Self::with_room(count);
        list.0.resize(count, value);
        list
    }

    /// Whatever there is of, `count` at most.
    pub(crate) fn collect(count: usize, values: impl Iterator<Item = T>) -> Self {
        let mut list = Self::with_room(count);
        list.0.extend(values.take(count));
        list
    }
}

impl<T: Kept> Drop for Buffer<T> {
    fn drop(&mut self) {
        let mut list = std::mem::take(&mut self.0);
        list.clear();
        if list.capacity() > 0 {
            let _ = T::with(|lists| lists.push(list));
        }
    }
}

impl<T: Kept> Deref for Buffer<T> {
    type Target = Vec<T>;
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Kept> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T: Kept + Clone> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self::collect(self.0.len(), self.0.iter().cloned())
    }
}

impl<T: Kept + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A box of a kernel's own, whose list goes back where it came from.
#[derive(Debug)]
pub(crate) struct NearRegion(Region);

impl NearRegion {
    /// Of these intervals.
    pub(crate) fn of(intervals: impl IntoIterator<Item = Interval>) -> Self {
        let mut list = Buffer::with_room(8);
        list.extend(intervals);
        Self(Region(std::mem::take(&mut list.0)))
    }
}

impl Drop for NearRegion {
    fn drop(&mut self) {
        drop(Buffer(std::mem::take(&mut self.0.0)));
    }
}

impl Deref for NearRegion {
    type Target = Region;
    fn deref(&self) -> &Region {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_used_again() {
        let index = |n: usize| Interval::new(n, n + 1);
        let first = NearRegion::of([index(3), index(5)]);
        assert_eq!(*first, Region::of(&[(3, 4), (5, 6)]));
        let place = first.0.0.as_ptr();
        drop(first);
        assert_eq!(NearRegion::of([index(1)]).0.0.as_ptr(), place);
    }

    #[test]
    fn room_is_for_any_type_and_grows() {
        let mut room = Room::default();
        room.of::<f32>(5).fill(1.0);
        assert_eq!(room.of::<u8>(3).len(), 3);
        let place = room.of::<f32>(5).as_ptr();
        assert_eq!(room.of::<i64>(3).as_ptr().cast(), place);
        room.of::<i64>(100).fill(7);
        assert_eq!(room.of::<i64>(100), [7; 100]);
        assert!(room.of::<f64>(0).is_empty());
    }

    #[test]
    fn lists_are_used_again() {
        let (first, second) = (Buffer::of(1i64, 100), Buffer::of(2i64, 10));
        let places = [first.as_ptr(), second.as_ptr()];
        assert_eq!((first.len(), second[9]), (100, 2));
        drop(first);
        drop(second);
        // The smaller of both that suffice, and emptied.
        let again = Buffer::<i64>::with_room(7);
        assert!(again.is_empty() && again.as_ptr() == places[1]);
        assert_eq!(Buffer::of(3i64, 100).as_ptr(), places[0]);
        assert_eq!(*Buffer::collect(3, 5i64..).clone(), vec![5, 6, 7]);
    }
}
