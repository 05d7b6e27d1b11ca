//! Values in memory: which box, in which form, where.

use super::orders::Orders;
use crate::program::{Base, Place};
use ein_ir::dtype::DType;
use ein_ir::monoid::Form;
use ein_ir::region::{Region, strides};
use ein_task::task::{Task, TaskGraph};

/// A value that a program reads or writes: its fields packed as [`Form::layout`] says, each in row-major order of the box
/// but where another is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The box whose elements are there.
    pub(crate) region: Region,
    /// Its fields.
    pub(crate) form: Form,
    /// Where it begins, at a multiple of 16 bytes.
    pub(crate) place: Place,
    /// Its axes as they lie, that of consecutive elements last, where that is not the box's order. Attention and products
    /// alone meet such a value.
    pub(crate) order: Option<Vec<usize>>,
}

impl Stored {
    /// A value in the order of its box.
    pub(crate) fn new(region: Region, form: Form, place: Place) -> Self {
        Self { region, form, place, order: None }
    }

    /// What a row leaves.
    pub(crate) fn own(task: &Task) -> Self {
        Self::new(task.stored().clone(), task.value.form.clone(), Base::Own.at(0))
    }

    /// What a row reads at position `n` of its reads.
    pub(crate) fn read(graph: &TaskGraph, task: &Task, n: usize) -> Self {
        let read = graph.task(task.reads[n]);
        Self::new(read.stored().clone(), read.value.form.clone(), Base::Read(n).at(0))
    }

    /// All that a row reads.
    pub(crate) fn reads(graph: &TaskGraph, task: &Task, orders: &Orders) -> Vec<Self> {
        let read = |n| Self::read(graph, task, n).ordered(orders.get(task.reads[n]));
        (0..task.reads.len()).map(read).collect()
    }

    /// The same, its axes in another order.
    pub(crate) fn ordered(self, order: Option<&[usize]>) -> Self {
        Self { order: order.map(<[usize]>::to_vec), ..self }
    }

    /// Elements from one index to the next along every axis of its box.
    pub(crate) fn steps(&self) -> Vec<i64> {
        let shape = self.region.shape();
        let Some(order) = &self.order else { return strides(&shape).into_iter().map(|s| s as i64).collect() };
        let turned: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let mut steps = vec![0; shape.len()];
        order.iter().zip(strides(&turned)).for_each(|(&axis, step)| steps[axis] = step as i64);
        steps
    }

    /// Type of a field's elements.
    pub(crate) fn dtype(&self, field: usize) -> DType {
        self.form.fields[field].dtype
    }

    /// The box of a field: the value's on the field's axes.
    pub(crate) fn field(&self, field: usize) -> Region {
        self.region.project(&self.form.fields[field].axes)
    }

    /// Where element `element` of a field lies.
    pub(crate) fn at(&self, field: usize, element: i64) -> Place {
        let bytes = self.form.layout(&self.region).0[field] as i64 + element * self.dtype(field).bytes() as i64;
        Place { offset: self.place.offset + bytes as u64, ..self.place }
    }

    /// Bytes of the whole.
    pub(crate) fn bytes(&self) -> u64 {
        self.form.layout(&self.region).1 as u64
    }
}

/// The largest power of two, at most 16, that an address is a multiple of: slots and scratch memory begin at multiples
/// of 16 at least.
pub(crate) fn alignment(place: Place) -> u64 {
    1 << place.offset.trailing_zeros().min(4)
}
