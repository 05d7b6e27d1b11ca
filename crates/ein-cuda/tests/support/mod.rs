//! What tests of generated programs share: an executor of programs over the host's memory, random tensors, and one row
//! task graphs.
//!
//! [`Cases`] collects programs with what they read and how their results are judged; [`Cases::run`] compiles the
//! kernels of all of them together, which is what takes time, and then executes each.

// Each test file uses a part.
#![allow(dead_code, unused_imports)]

mod chains;
mod matmul;
mod random;
mod rows;

pub use chains::{Chain, chain, einsum, pair};
pub use random::Rng;
pub use rows::{Row, Values, fields, kernel_row, op_row, stored};

use ein_cuda::generate::{KINDS, PRELUDE};
use ein_cuda::program::{Arg, Base, Fault, Place, Program, Step};
use ein_fake_cuda::shim::{Argument, Memory, Module};
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use std::collections::BTreeMap;

/// A program and what becomes of it.
struct Case {
    what: String,
    program: Program,
    own: Vec<u8>,
    reads: Vec<Vec<u8>>,
    #[allow(clippy::type_complexity)]
    check: Box<dyn FnOnce(&str, &[u8], Fault)>,
}

/// Programs to be compiled together.
#[derive(Default)]
pub struct Cases(Vec<Case>);

impl Cases {
    /// Adds a program: `own` is what its slot holds before, `reads` what the slots of its reads do; `check` gets `what`,
    /// what the slot holds after, and the device's fault record.
    pub fn add(
        &mut self,
        what: impl Into<String>,
        program: Program,
        own: Vec<u8>,
        reads: Vec<Vec<u8>>,
        check: impl FnOnce(&str, &[u8], Fault) + 'static,
    ) {
        self.0.push(Case { what: what.into(), program, own, reads, check: Box::new(check) });
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The programs, for a look at what was chosen.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &Program)> {
        self.0.iter().map(|c| (c.what.as_str(), &c.program))
    }

    /// Compiles the kernels, executes every program and judges it.
    pub fn run(self) {
        let mut kernels = BTreeMap::new();
        for launch in self.0.iter().flat_map(|c| &c.program.steps).filter_map(launched) {
            assert!(KINDS.contains(&launch.kernel.kind()), "{} is of no kind that is known", launch.kernel.name);
            kernels.insert(launch.kernel.name.clone(), launch.kernel.source.clone());
        }
        // Some at a time: what is wrong in one text is found among few.
        let mut modules: BTreeMap<String, usize> = BTreeMap::new();
        let mut compiled = Vec::new();
        let all: Vec<(String, String)> = kernels.into_iter().collect();
        for some in all.chunks(64) {
            let text: String = some.iter().map(|(_, source)| source.as_str()).collect();
            let text = format!("{PRELUDE}\n{text}");
            let module = Module::compile(&text).unwrap_or_else(|e| panic!("{e}\n{}", &text[PRELUDE.len()..]));
            modules.extend(some.iter().map(|(name, _)| (name.clone(), compiled.len())));
            compiled.push(module);
        }
        for case in self.0 {
            let module = |name: &str| &compiled[modules[name]];
            let (left, fault) = case.executed(&module).unwrap_or_else(|e| panic!("{}: {e}", case.what));
            (case.check)(&case.what, &left, fault);
        }
    }

    /// What every program leaves, or what is noticed, when another text stands before its kernels.
    pub fn outcomes(self, prelude: &str) -> Vec<Result<Vec<u8>, String>> {
        let outcome = |case: Case| {
            let launches = case.program.steps.iter().filter_map(launched);
            let kernels: BTreeMap<&str, &str> =
                launches.map(|l| (l.kernel.name.as_str(), l.kernel.source.as_str())).collect();
            let text: String = kernels.into_values().collect();
            let module = Module::compile(&format!("{prelude}\n{text}")).unwrap_or_else(|e| panic!("{e}"));
            case.executed(&|_| &module).map(|(left, _)| left)
        };
        self.0.into_iter().map(outcome).collect()
    }
}

impl Case {
    /// Executes the program: what its slot holds after, and the device's fault record.
    fn executed<'m>(&self, module: &dyn Fn(&str) -> &'m Module) -> Result<(Vec<u8>, Fault), String> {
        let own = Memory::of(&self.own);
        let reads: Vec<Memory> = self.reads.iter().map(|r| Memory::of(r)).collect();
        let fault = Memory::new(32);
        let memory =
            Slots { own: &own, reads: &reads, fault: &fault, scratch: Memory::new(self.program.scratch as usize) };
        for step in &self.program.steps {
            memory.step(step, module).map_err(|e| format!("{e}\n{}", source(step)))?;
        }
        for (n, (before, after)) in self.reads.iter().zip(&reads).enumerate() {
            let after: Vec<u8> = after.read().map_err(|e| format!("read {n}: {e}"))?;
            if *before != after {
                return Err(format!("read {n} was written"));
            }
        }
        memory.scratch.read::<u8>().map_err(|e| format!("scratch: {e}"))?;
        let record = fault.read::<u64>()?;
        let fault = Fault { row: record[0], code: record[1] as i64, value: record[2] as i64, limit: record[3] as i64 };
        Ok((own.read()?, fault))
    }
}

fn launched(step: &Step) -> Option<&ein_cuda::program::Launch> {
    if let Step::Launch(launch) = step { Some(launch) } else { None }
}

fn source(step: &Step) -> &str {
    launched(step).map_or("", |l| &l.kernel.source)
}

/// The memory of one row.
struct Slots<'a> {
    own: &'a Memory,
    reads: &'a [Memory],
    fault: &'a Memory,
    scratch: Memory,
}

impl Slots<'_> {
    fn memory(&self, base: Base) -> &Memory {
        match base {
            Base::Own => self.own,
            Base::Read(n) => &self.reads[n],
            Base::Scratch => &self.scratch,
            Base::Fault => self.fault,
        }
    }

    fn step<'m>(&self, step: &Step, module: &dyn Fn(&str) -> &'m Module) -> Result<(), String> {
        match step {
            Step::Launch(launch) => {
                let argument = |arg: &Arg| match *arg {
                    Arg::Pointer(Place { base, offset }) => Argument::Pointer(self.memory(base).address() + offset),
                    Arg::I64(v) => Argument::I64(v),
                    Arg::I32(v) => Argument::I32(v),
                    Arg::F32(v) => Argument::F32(v),
                    Arg::Map(map) => Argument::Map(self.map(&map)),
                };
                let args: Vec<Argument> = launch.args.iter().map(argument).collect();
                let name = &launch.kernel.name;
                module(name).launch(name, launch.grid, launch.block, launch.shared, &args)
            }
            Step::Copy { from, to, bytes } => {
                let source: Vec<u8> = self.memory(from.base).read().map_err(String::from)?;
                let (at, bytes) = (from.offset as usize, *bytes as usize);
                self.put(*to, &source[at..at + bytes])
            }
            Step::Zero { at, bytes } => self.put(*at, &vec![0; *bytes as usize]),
            Step::Matmul(m) => {
                let read = |place: Place| self.memory(place.base).read::<u8>().map_err(String::from);
                let bias = m.epilogue.bias.map_or(Ok(Vec::new()), read)?;
                let add = m.epilogue.add.map_or(Ok(Vec::new()), |m| read(m.place))?;
                let mut c = read(m.c.place)?;
                matmul::multiply(m, &read(m.a.place)?, &read(m.b.place)?, &add, &bias, &mut c);
                self.memory(m.c.place.base).write(&c);
                Ok(())
            }
        }
    }

    /// A tensor as the driver of a Hopper would describe it.
    fn map(&self, map: &ein_cuda::program::TensorMap) -> [u64; 16] {
        let described = ein_fake_cuda::TensorMap {
            dtype: if map.dtype == DType::BF16 { 9 } else { 6 },
            address: self.memory(map.place.base).address() + map.place.offset,
            extents: map.extents.to_vec(),
            steps: map.steps.to_vec(),
            boxes: map.boxes.to_vec(),
            every: vec![1; 4],
            interleave: 0,
            swizzle: 3,
            fill: 0,
        };
        described.encode((9, 0)).unwrap_or_else(|e| panic!("{map:?}: {e}"))
    }

    fn put(&self, to: Place, bytes: &[u8]) -> Result<(), String> {
        let memory = self.memory(to.base);
        let mut all: Vec<u8> = memory.read().map_err(String::from)?;
        all[to.offset as usize..to.offset as usize + bytes.len()].copy_from_slice(bytes);
        memory.write(&all);
        Ok(())
    }
}

/// How far results of floats may be from the reference, relative to the largest value.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 3e-6,
        DType::BF16 => 1.0 / 128.0,
        DType::F16 => 1.0 / 1024.0,
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => 0.0,
    }
}

/// Fails unless each field is as expected: exactly, or within its type's tolerance.
pub fn assert_near(what: &str, got: &[Dense], expected: &[Dense], exact: bool) {
    assert_eq!(got.len(), expected.len(), "{what}: fields");
    for (n, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.ty(), expected.ty(), "{what}: field {n}");
        let largest = expected.to_f64().into_iter().filter(|v| v.is_finite()).fold(1.0f64, |a, v| a.max(v.abs()));
        let bound = if exact { 0.0 } else { tolerance(got.dtype()) * largest };
        let apart = got.max_abs_difference(expected);
        assert!(apart <= bound, "{what}: field {n} is {apart:e} off, not {bound:e}\n{got:?}\n{expected:?}");
    }
}
