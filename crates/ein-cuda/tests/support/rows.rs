//! Task graphs of one row, and values as bytes.

use super::{Cases, Rng, assert_near};
use ein_cuda::generate;
use ein_cuda::program::Target;
use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::monoid::Form;
use ein_ir::op::Op;
use ein_ir::reference;
use ein_ir::region::Region;
use ein_task::machine::DeviceId;
use ein_task::task::{OpRow, Slot, Task, TaskGraph, TaskId, Value, Verb};

/// A value: a box of a tensor in some form, and its fields.
pub type Values = (Region, Form, Vec<Dense>);

/// Fields stored as a value is. What is between them is 0xff.
pub fn stored(fields: &[Dense], form: &Form, region: &Region) -> Vec<u8> {
    let (offsets, bytes) = form.layout(region);
    let mut all = vec![0xff; bytes];
    for (field, at) in fields.iter().zip(offsets) {
        let from = field.to_le_bytes();
        all[at..at + from.len()].copy_from_slice(&from);
    }
    all
}

/// The fields of stored bytes.
pub fn fields(bytes: &[u8], form: &Form, region: &Region) -> Vec<Dense> {
    let (offsets, _) = form.layout(region);
    let field = |(f, at): (&ein_ir::monoid::Field, usize)| {
        let ty = TensorType::new(f.dtype, region.project(&f.axes).shape());
        let size = ty.shape.iter().product::<usize>() * f.dtype.bytes();
        Dense::from_le_bytes(&ty, &bytes[at..at + size]).expect("the right number of bytes")
    };
    form.fields.iter().zip(offsets).map(field).collect()
}

/// A task graph whose last row is under test.
pub struct Row {
    /// The graph.
    pub graph: TaskGraph,
    /// The values that the row reads, as bytes.
    pub reads: Vec<Vec<u8>>,
}

impl Row {
    /// A row that does `verb` on values and leaves `value`.
    pub fn new(ops: Vec<OpRow>, verb: Verb, reads: &[Values], value: Value) -> Self {
        let mut graph = TaskGraph { devices: 1, ops, labels: vec!["it".into()], ..TaskGraph::default() };
        let task = |verb, reads, value| Task {
            device: DeviceId(0),
            verb,
            reads,
            after: Vec::new(),
            value,
            within: None,
            slot: Slot::default(),
            label: 0,
        };
        let mut ids = Vec::new();
        for (region, form, _) in reads {
            let value = Value { region: region.clone(), form: form.clone() };
            ids.push(graph.push(task(Verb::Feed { external: 0 }, Vec::new(), value)));
        }
        graph.push(task(verb, ids, value));
        let reads = reads.iter().map(|(region, form, fields)| stored(fields, form, region)).collect();
        Self { graph, reads }
    }

    /// The row's number.
    pub fn id(&self) -> TaskId {
        TaskId(self.graph.tasks.len() as u32 - 1)
    }

    /// Adds the case that the row leaves `expected`, exactly or nearly.
    pub fn check(self, cases: &mut Cases, what: &str, expected: Vec<Dense>, exact: bool) {
        let program = generate::program(&self.graph, self.id(), &generate::Orders::default(), &Target::A100)
            .unwrap_or_else(|e| panic!("{what}: {e}"));
        let value = self.graph.task(self.id()).value.clone();
        let own = vec![0xff; value.bytes().0 as usize];
        cases.add(what, program, own, self.reads, move |what, left, _| {
            assert_near(what, &fields(left, &value.form, &value.region), &expected, exact);
        });
    }
}

/// The row of an operation whose operands have these types.
pub fn op_row(op: &Op, operands: &[DType]) -> OpRow {
    let spec = op.spec(operands).expect("it computes");
    OpRow {
        name: "it".into(),
        op: op.clone(),
        operands: operands.iter().map(|&d| TensorType::new(d, vec![])).collect(),
        result: TensorType::new(spec.dtype, vec![]),
        spec: Some(spec),
    }
}

/// A block of an operation on tensors, each cut to a box around what is read; and what the reference makes of it.
pub fn kernel_row(
    rng: &mut Rng,
    op: &Op,
    whole: &[Dense],
    labels: &Region,
    form: &Form,
    finish: bool,
) -> (Row, Vec<Dense>) {
    let dtypes: Vec<DType> = whole.iter().map(Dense::dtype).collect();
    let row = op_row(op, &dtypes);
    let spec = row.spec.clone().expect("it computes");
    let mut reads: Vec<Values> = Vec::new();
    let mut operands = Vec::new();
    for (n, dense) in whole.iter().enumerate() {
        let all = Region::whole(&dense.shape);
        let needs = spec.operand_region(n, labels);
        operands.push((!needs.is_empty()).then_some(reads.len()));
        if !needs.is_empty() {
            let region = rng.around(&needs, &all);
            let data = dense.cut(&all, &region);
            reads.push((region, Form::finished(dense.dtype(), all.rank()), vec![data]));
        }
    }
    let given: Vec<Option<reference::Operand<'_>>> = operands
        .iter()
        .map(|o| o.map(|n: usize| reference::Operand { data: &reads[n].2[0], region: reads[n].0.clone() }))
        .collect();
    let expected = reference::block(op, labels, &given, form, finish).expect("the reference agrees to it");
    let value = Value { region: spec.result_region(labels), form: form.clone() };
    let verb = Verb::Kernel { op: 0, labels: labels.clone(), finish, operands };
    (Row::new(vec![row], verb, &reads, value), expected)
}
