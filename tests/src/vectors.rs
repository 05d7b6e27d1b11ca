//! What `PyTorch` computes, stored by `tests/vectors/make.py`, and how this library is asked for the same.
//!
//! A family is a file `tests/vectors/<family>.jsonl`, made by `tests/vectors/make/<family>.py`, and a module
//! here whose `apply` calls the method of `Tensor` that a line names.

pub mod activation;
pub mod arithmetic;
pub mod attention;
pub mod bits;
pub mod compare;
pub mod contract;
pub mod conv;
pub mod create;
pub mod cumulative;
pub mod elementwise;
pub mod functions;
pub mod image;
pub mod index;
pub mod loss;
pub mod norm;
pub mod order;
pub mod pool;
pub mod products;
pub mod rearrange;
pub mod reduce;
pub mod shape;

use ein_ir::dense::{Data, Dense};
use ein_ir::dtype::DType;
use einsummable::tensor::window::PerAxis;
use einsummable::{Operand, Tensor};
use serde_json::Value;
use std::path::Path;

/// One line: an operation, what goes in and what must come out.
#[derive(Clone, Debug)]
pub struct Vector {
    /// The operation, by the name of the method.
    pub operation: String,
    /// What this case tries.
    pub variant: String,
    /// Arguments that are no tensors.
    pub args: Args,
    /// The tensors that go in.
    pub inputs: Vec<Dense>,
    /// What `PyTorch` gives.
    pub outputs: Vec<Dense>,
    /// How far an element may be off, as a share of its magnitude.
    pub within: f64,
    /// How far an element may be off besides.
    pub near: f64,
}

/// Calls an operation; nothing where the family does not know it.
pub type Apply = fn(&str, &Args, &[Tensor]) -> Option<Vec<Tensor>>;

/// The families, by name.
pub fn families() -> Vec<(&'static str, Apply)> {
    vec![
        ("activation", activation::apply),
        ("arithmetic", arithmetic::apply),
        ("attention", attention::apply),
        ("bits", bits::apply),
        ("compare", compare::apply),
        ("contract", contract::apply),
        ("conv", conv::apply),
        ("create", create::apply),
        ("cumulative", cumulative::apply),
        ("elementwise", elementwise::apply),
        ("functions", functions::apply),
        ("image", image::apply),
        ("index", index::apply),
        ("loss", loss::apply),
        ("norm", norm::apply),
        ("order", order::apply),
        ("pool", pool::apply),
        ("products", products::apply),
        ("rearrange", rearrange::apply),
        ("reduce", reduce::apply),
        ("shape", shape::apply),
    ]
}

/// Tensor `n`, or the number `value` where there are fewer.
fn second(args: &Args, x: &[Tensor], n: usize) -> Operand {
    x.get(n).map_or_else(|| args.operand("value"), Operand::from)
}

/// The lines of a family.
pub fn read(family: &str) -> Vec<Vector> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("vectors/{family}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = |(n, line): (usize, &str)| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{family}.jsonl:{}: {e}", n + 1));
        vector(&value)
    };
    text.lines().enumerate().map(line).collect()
}

fn vector(line: &Value) -> Vector {
    let text = |key: &str| line[key].as_str().unwrap_or_else(|| panic!("`{key}` of {line}")).to_owned();
    let tensors = |key: &str| line[key].as_array().expect("a list").iter().map(dense).collect();
    Vector {
        operation: text("operation"),
        variant: text("variant"),
        args: Args(line["args"].clone()),
        inputs: tensors("inputs"),
        outputs: tensors("outputs"),
        within: number(&line["within"]),
        near: number(&line["near"]),
    }
}

/// A number as it is stored: what JSON has no number for is text.
fn number(value: &Value) -> f64 {
    match value {
        Value::Number(n) => n.as_f64().expect("a number"),
        Value::String(text) => text.parse().unwrap_or_else(|e| panic!("`{text}`: {e}")),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => panic!("{value} is no number"),
    }
}

fn dense(value: &Value) -> Dense {
    let dtype = value["dtype"].as_str().and_then(DType::parse).unwrap_or_else(|| panic!("the type of {value}"));
    let shape: Vec<usize> =
        value["shape"].as_array().expect("a shape").iter().map(|n| n.as_u64().expect("an extent") as usize).collect();
    let values = value["values"].as_array().expect("values");
    if dtype == DType::I64 {
        // Not by way of floats, which do not hold all of them.
        let values: Vec<i64> = values.iter().map(|v| v.as_i64().expect("an integer")).collect();
        return Dense::i64(shape, values);
    }
    let values: Vec<f64> = values.iter().map(number).collect();
    Dense::from_f64(dtype, shape, &values)
}

/// Arguments by name.
#[derive(Clone, Debug)]
pub struct Args(Value);

impl Args {
    fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or_else(|| panic!("no argument `{name}` in {}", self.0))
    }

    /// Whether it is there and not `None`.
    pub fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|v| !v.is_null())
    }

    /// A bool.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or_else(|| panic!("`{name}` of {}", self.0))
    }

    /// A text.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap_or_else(|| panic!("`{name}` of {}", self.0))
    }

    /// A text, if that is what it is.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A bool, or `default` where there is none.
    pub fn flag_or(&self, name: &str, default: bool) -> bool {
        if self.has(name) { self.flag(name) } else { default }
    }

    /// An extent, or `default` where there is none.
    pub fn size_or(&self, name: &str, default: usize) -> usize {
        if self.has(name) { self.size(name) } else { default }
    }

    /// One number for all spatial axes or one for each, or `default` where there is none.
    pub fn each(&self, name: &str, default: usize) -> PerAxis {
        if self.has(name) { PerAxis::from(self.sizes(name).as_slice()) } else { default.into() }
    }

    /// A type.
    pub fn dtype(&self, name: &str) -> DType {
        DType::parse(self.text(name)).unwrap_or_else(|| panic!("`{name}` of {}", self.0))
    }

    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        number(self.get(name))
    }

    /// A number as an operand: a float, or an integer where it is written as one in Python.
    pub fn operand(&self, name: &str) -> Operand {
        match self.get(name).as_i64() {
            Some(n) => Operand::Int(n),
            None => Operand::Float(self.number(name)),
        }
    }

    /// Numbers.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        let list = self.get(name).as_array().unwrap_or_else(|| panic!("`{name}` of {}", self.0));
        list.iter().map(number).collect()
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> i64 {
        self.get(name).as_i64().unwrap_or_else(|| panic!("`{name}` of {}", self.0))
    }

    /// An extent, or another number that is not negative.
    pub fn size(&self, name: &str) -> usize {
        usize::try_from(self.int(name)).unwrap_or_else(|_| panic!("`{name}` of {}", self.0))
    }

    /// Whole numbers.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        let list = self.get(name).as_array().unwrap_or_else(|| panic!("`{name}` of {}", self.0));
        list.iter().map(|v| v.as_i64().unwrap_or_else(|| panic!("`{name}` of {}", self.0))).collect()
    }

    /// Extents, or other numbers that are not negative.
    pub fn sizes(&self, name: &str) -> Vec<usize> {
        let whole = |n: i64| usize::try_from(n).unwrap_or_else(|_| panic!("`{name}` of {}", self.0));
        self.ints(name).into_iter().map(whole).collect()
    }
}

impl Vector {
    /// What is wrong with one output, if anything is: its type, its shape, or the first element that is off.
    pub fn difference(&self, which: usize, found: &Dense) -> Option<String> {
        let expected = &self.outputs[which];
        if found.ty() != expected.ty() {
            return Some(format!("{}, PyTorch gives {}", found.ty(), expected.ty()));
        }
        if let (Data::I64(a), Data::I64(b)) = (&found.data, &expected.data) {
            let at = a.iter().zip(b).position(|(a, b)| a != b)?;
            return Some(format!("element {at} is {}, PyTorch gives {}", a[at], b[at]));
        }
        let same = |a: f64, b: f64| {
            let exact = self.within == 0.0 && self.near == 0.0;
            let equal = a == b && (!exact || a.is_sign_negative() == b.is_sign_negative());
            let close = b.is_finite() && (a - b).abs() <= self.near + self.within * b.abs();
            equal || (a.is_nan() && b.is_nan()) || (close && !exact)
        };
        let (a, b) = (found.to_f64(), expected.to_f64());
        let at = (0..a.len()).find(|&n| !same(a[n], b[n]))?;
        Some(format!("element {at} is {:e}, PyTorch gives {:e}", a[at], b[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, Vector};
    use ein_ir::dense::Dense;
    use serde_json::json;

    #[test]
    fn differences_are_found() {
        let rows: [(f32, f32, f64, f64, bool); 9] = [
            (0.0, 0.0, 0.0, 0.0, true),
            (-0.0, 0.0, 0.0, 0.0, false),
            (-0.0, 0.0, 1e-6, 0.0, true),
            (1.0, 1.000001, 0.0, 0.0, false),
            (1.0, 1.000001, 1e-5, 0.0, true),
            (1e-9, 2e-9, 1e-5, 0.0, false),
            (1e-9, 2e-9, 1e-5, 1e-8, true),
            (f32::NAN, 1.0, 1.0, 1.0, false),
            (f32::INFINITY, f32::NEG_INFINITY, 1.0, 1.0, false),
        ];
        for (found, expected, within, near, same) in rows {
            let outputs = vec![Dense::f32([1], vec![expected])];
            let (operation, variant, args) = (String::new(), String::new(), Args(json!({})));
            let vector = Vector { operation, variant, args, inputs: vec![], outputs, within, near };
            let difference = vector.difference(0, &Dense::f32([1], vec![found]));
            assert_eq!(difference.is_none(), same, "{found} for {expected}: {difference:?}");
        }
    }
}
