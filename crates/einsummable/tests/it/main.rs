//! What a user of the library meets: operations, shape rules, models and folders, against values written
//! by hand or stored from `PyTorch`.

mod configs;
mod folders;
mod losses;
mod models;
mod networks;
mod ops;
mod plan_store;
mod products;
mod random;
mod rules;
mod sessions;
mod types;
mod weights;
mod windows;

use ein_ir::reference;
use einsummable::{DType, Dense, Tensor, trace};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A constant with a name of its own.
fn constant(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Tensor::constant(&name, Dense::from_f64(dtype, shape, values))
}

/// A float constant.
fn c(shape: &[usize], values: &[f64]) -> Tensor {
    constant(DType::F32, shape, values)
}

/// `0, 1, 2, …` in this shape.
fn count(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>();
    c(shape, &(0..n).map(|v| v as f64).collect::<Vec<_>>())
}

/// The value by the dense reference.
fn value(tensor: &Tensor) -> Dense {
    let traced = trace(&[("out", tensor)]).unwrap_or_else(|e| panic!("{tensor:?}: {e}"));
    let inputs: BTreeMap<String, Dense> = traced.constants.iter().map(|(n, d)| (n.clone(), (**d).clone())).collect();
    let mut out = reference::run(&traced.graph, &inputs).unwrap_or_else(|e| panic!("{tensor:?}: {e}"));
    out.remove("out").expect("the output")
}

/// A folder of the repository's fixtures.
fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}
