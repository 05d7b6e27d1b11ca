//! Fixed strategies, for comparison with what the search finds. The search knows none of them.
//!
//! Each is built from specs alone, without a model's names: a rule says which axis of the graph's inputs, or
//! which label of which product, is cut into a strip for each device; from there the cut is carried
//! through every row whose spec allows it. A choice is legal whatever a rule decides, since readers
//! state what they need; rules decide only how much has to move.

mod both;
mod cut;
mod drawn;
mod grid;
mod holding;
#[cfg(test)]
pub(crate) mod strategies_tests;

use crate::choice::{Choice, Decomposition, Home};
use crate::options::{Options, Strategy};
use cut::Strips;
use ein_ir::graph::{Graph, TensorId};
use ein_ir::op::{InputKind, Op};
use ein_ir::spec::{AxisMap, Role, Spec};
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::Held;
use std::collections::{BTreeMap, BTreeSet};

/// Why a strategy does not fit a graph and a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strategy `{}` does not apply: {reason}", strategy.name())]
pub struct Refusal {
    /// The strategy.
    pub strategy: Strategy,
    /// Why, with the sizes.
    pub reason: String,
}

/// The strategy's decompositions and homes.
pub fn fixed(strategy: Strategy, graph: &Graph, machine: &Machine, options: &Options) -> Result<Choice, Refusal> {
    let workers: Vec<DeviceId> = machine.workers().iter().collect();
    if workers.is_empty() {
        let reason = format!("machine `{}` has no device that computes", machine.name);
        return Err(Refusal { strategy, reason });
    }
    match strategy {
        Strategy::OneDevice => strips(strategy, graph, options, workers[..1].to_vec()),
        Strategy::Ring => ring(graph, options, &workers),
        Strategy::DataTensor { data, tensor } => both::choice(data, tensor, graph, options, &workers),
        Strategy::Grid2d | Strategy::Grid3d => grid::choice(strategy, graph, options, &workers),
        Strategy::Random(seed) => Ok(drawn::choice(seed, graph, machine, options)),
        Strategy::Data
        | Strategy::Tensor
        | Strategy::TensorSequence
        | Strategy::FullyShardedData
        | Strategy::Ulysses => strips(strategy, graph, options, workers),
    }
}

/// A strategy that cuts one axis of a tensor in a strip for each of `workers`. One that stands there twice has two.
fn strips(strategy: Strategy, graph: &Graph, options: &Options, workers: Vec<DeviceId>) -> Result<Choice, Refusal> {
    let mut rule = Rule::new(strategy, graph, options, workers);
    rule.inputs()?;
    if matches!(strategy, Strategy::Tensor | Strategy::TensorSequence | Strategy::Ulysses) {
        rule.heads()?;
    }
    for id in graph.ids() {
        rule.row(id);
    }
    rule.has_cut()?;
    rule.hold();
    Ok(rule.choice)
}

/// Where later queries see more keys a device has a strip from each end, if there are tokens enough.
fn ring(graph: &Graph, options: &Options, workers: &[DeviceId]) -> Result<Choice, Refusal> {
    let later = graph.ids().any(|id| graph.spec(id).is_some_and(|s| s.work.band.is_some()));
    let there_and_back = workers.iter().chain(workers.iter().rev()).copied().collect();
    let folded = if later { strips(Strategy::Ring, graph, options, there_and_back).ok() } else { None };
    folded.map_or_else(|| strips(Strategy::Ring, graph, options, workers.to_vec()), Ok)
}

/// The most blocks of keys that a device folds one after the other in ring attention: more would only be more to plan.
const KEYS: usize = 8;

/// What a cut axis is, which decides what a product does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Features or heads, cut by a product with a parameter.
    Features,
    /// Rows of the batch, or tokens, cut from the inputs on.
    Rows,
}

/// How the rows that read a tensor may expect to find it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    axis: usize,
    strips: Strips,
    kind: Kind,
}

struct Rule<'a> {
    strategy: Strategy,
    graph: &'a Graph,
    options: &'a Options,
    workers: Vec<DeviceId>,
    /// Whether a tensor depends on parameters only.
    constant: Vec<bool>,
    /// The axis of tokens, where there is one.
    tokens: Vec<Option<usize>>,
    /// For products whose heads some attention reads: the label to cut.
    wanted: BTreeMap<TensorId, (usize, Strips)>,
    /// For attention: the strips of its heads.
    heads: BTreeMap<TensorId, Strips>,
    cuts: Vec<Option<Cut>>,
    /// Whether a product with a parameter has been cut.
    products: bool,
    choice: Choice,
}

impl<'a> Rule<'a> {
    fn new(strategy: Strategy, graph: &'a Graph, options: &'a Options, workers: Vec<DeviceId>) -> Self {
        let count = graph.nodes().len();
        let mut constant = vec![false; count];
        for id in graph.ids() {
            let node = graph.node(id);
            constant[id.index()] = match node.op {
                Op::Input(kind) => kind == InputKind::Parameter,
                Op::Einsum(_) | Op::View(_) | Op::Kernel(_) => node.inputs.iter().all(|i| constant[i.index()]),
            };
        }
        Self {
            strategy,
            graph,
            options,
            workers,
            constant,
            tokens: vec![None; count],
            wanted: BTreeMap::new(),
            heads: BTreeMap::new(),
            cuts: vec![None; count],
            products: false,
            choice: Choice::default(),
        }
    }

    fn refuse<T>(&self, reason: String) -> Result<T, Refusal> {
        Err(Refusal { strategy: self.strategy, reason })
    }

    fn name(&self, id: TensorId) -> &str {
        &self.graph.node(id).name
    }

    fn devices(&self) -> DeviceSet {
        self.workers.iter().copied().collect()
    }

    /// Decides the cuts of the graph's inputs.
    fn inputs(&mut self) -> Result<(), Refusal> {
        let inputs = self.graph.inputs(InputKind::Input);
        let axes: BTreeMap<TensorId, usize> = match self.strategy {
            Strategy::OneDevice | Strategy::Tensor => return Ok(()),
            Strategy::Data | Strategy::FullyShardedData => self.batch(&inputs)?,
            Strategy::TensorSequence | Strategy::Ulysses | Strategy::Ring => self.token_axes(&inputs)?,
            Strategy::DataTensor { .. } | Strategy::Grid2d | Strategy::Grid3d | Strategy::Random(_) => {
                unreachable!("not made of strips of one axis")
            }
        };
        for (input, axis) in axes {
            let strips = cut::even(self.graph.ty(input).shape[axis], self.workers.len());
            self.tokens[input.index()] = Some(axis);
            self.cuts[input.index()] = Some(Cut { axis, strips, kind: Kind::Rows });
        }
        Ok(())
    }

    /// The leading axis of every input is the batch.
    fn batch(&self, inputs: &[TensorId]) -> Result<BTreeMap<TensorId, usize>, Refusal> {
        let lead = |id: TensorId| self.graph.ty(id).shape.first().copied();
        let batched: Vec<(TensorId, usize)> = inputs.iter().filter_map(|&id| Some((id, lead(id)?))).collect();
        let Some(&(first, batch)) = batched.first() else {
            return self.refuse("the graph has no input with an axis that could be the batch".into());
        };
        if let Some(&(other, extent)) = batched.iter().find(|(_, extent)| *extent != batch) {
            let (first, other) = (self.name(first), self.name(other));
            return self.refuse(format!(
                "the leading axis of every input must be the batch, but that of `{first}` is {batch} long and that of `{other}` {extent}"
            ));
        }
        if batch < self.workers.len() {
            let (first, devices) = (self.name(first), self.workers.len());
            return self.refuse(format!(
                "the batch (leading axis of `{first}`) is {batch} and there are {devices} devices; a batch of {devices} or more, or at most {batch} devices, would work"
            ));
        }
        Ok(batched.into_iter().map(|(id, _)| (id, 0)).collect())
    }

    /// The axis of every input that becomes the queries of an attention. Without any attention the last axis
    /// but one, the rows of what products read.
    fn token_axes(&self, inputs: &[TensorId]) -> Result<BTreeMap<TensorId, usize>, Refusal> {
        let attention: Vec<TensorId> = self.graph.ids().filter(|&id| self.attention_heads(id).is_some()).collect();
        if attention.is_empty() && matches!(self.strategy, Strategy::Ulysses | Strategy::Ring) {
            let what = if self.strategy == Strategy::Ring { "keys" } else { "heads" };
            return self.refuse(format!("there is no attention in which {what} could be cut"));
        }
        let mut axes = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<(TensorId, usize)> = attention.iter().rev().map(|&id| (id, 2)).collect();
        while let Some((tensor, axis)) = open.pop() {
            if !seen.insert((tensor, axis)) {
                continue;
            }
            if self.graph.node(tensor).op == Op::Input(InputKind::Input) {
                axes.entry(tensor).or_insert(axis);
            }
            let whole = vec![ein_ir::region::Interval::new(0, self.graph.ty(tensor).shape[axis])];
            open.extend(self.before(tensor, axis, &whole).into_iter().map(|(t, a, _)| (t, a)));
        }
        if attention.is_empty() {
            let rows = |id: &TensorId| Some((*id, self.graph.ty(*id).shape.len().checked_sub(2)?));
            axes = inputs.iter().filter_map(rows).collect();
        }
        let extent = |(id, axis): (&TensorId, &usize)| self.graph.ty(*id).shape[*axis];
        let Some(fewest) = axes.iter().min_by_key(|e| extent(*e)) else {
            return self.refuse("no input has an axis of tokens".into());
        };
        let (tokens, devices) = (extent(fewest), self.workers.len());
        if tokens < devices {
            return self.refuse(format!(
                "`{}` has {tokens} tokens (axis {}) and there are {devices} devices; {devices} tokens or more, or at most {tokens} devices, would work",
                self.name(*fewest.0),
                fewest.1
            ));
        }
        Ok(axes)
    }

    /// What strips of an axis of a tensor are read from: operands' axes and strips, parameters aside.
    fn before(&self, tensor: TensorId, axis: usize, strips: &Strips) -> Vec<(TensorId, usize, Strips)> {
        let node = self.graph.node(tensor);
        let mut found = Vec::new();
        if let Op::View(view) = &node.op {
            let shapes: Vec<&[usize]> = node.inputs.iter().map(|&i| self.graph.ty(i).shape.as_slice()).collect();
            for (n, &input) in node.inputs.iter().enumerate() {
                let back = cut::backward(view, &shapes, &node.ty.shape, n, axis, strips);
                found.extend(back.map(|(axis, strips)| (input, axis, strips)));
            }
        } else if let Some(spec) = self.graph.spec(tensor).filter(|s| axis < s.rank) {
            for (n, &input) in node.inputs.iter().enumerate() {
                for (a, map) in spec.operands[n].axes.iter().enumerate() {
                    if reads_label(map, axis) {
                        let strips = strips.iter().map(|&i| {
                            let mut labels = spec.space();
                            labels.0[axis] = i;
                            map.interval(&labels)
                        });
                        found.push((input, a, strips.collect()));
                    }
                }
            }
        }
        found.retain(|(t, _, _)| !self.constant[t.index()]);
        found
    }

    /// Query heads and key/value heads of an attention: a label that operands follow several to one, as its spec says.
    fn attention_heads(&self, id: TensorId) -> Option<(usize, usize)> {
        let spec = self.graph.spec(id)?;
        spec.operands.iter().flat_map(|o| &o.axes).find_map(|map| match map {
            AxisMap::Div { label, by } => Some((spec.labels[*label].extent, spec.labels[*label].extent / by)),
            AxisMap::Affine(_) | AxisMap::Band(_) => None,
        })
    }

    /// Cuts the heads of every attention, by key/value heads where there are enough of them, and notes where
    /// products make these heads.
    fn heads(&mut self) -> Result<(), Refusal> {
        let devices = self.workers.len();
        for id in self.graph.ids() {
            let Some((heads, kv)) = self.attention_heads(id) else { continue };
            if heads < devices {
                let name = self.name(id);
                return self.refuse(format!(
                    "`{name}` has {heads} heads and there are {devices} devices; at most {heads} devices would work"
                ));
            }
            let strips = if kv >= devices {
                cut::scale(&cut::even(kv, devices), heads / kv, heads)
            } else {
                cut::even(heads, devices)
            };
            self.heads.insert(id, strips.clone());
            let mut seen = BTreeSet::new();
            let mut open = vec![(id, 1, strips)];
            while let Some((tensor, axis, strips)) = open.pop() {
                if !seen.insert((tensor, axis)) {
                    continue;
                }
                let makes = self.graph.spec(tensor).filter(|s| self.made(tensor, s).contains(&axis));
                if makes.is_some() {
                    self.wanted.entry(tensor).or_insert((axis, strips));
                } else {
                    open.extend(self.before(tensor, axis, &strips));
                }
            }
        }
        Ok(())
    }

    /// For a product of an activation with parameters: the output labels that only parameters have, those that
    /// step furthest through a parameter first (heads before the features of a head).
    fn made(&self, id: TensorId, spec: &Spec) -> Vec<usize> {
        let inputs = &self.graph.node(id).inputs;
        let constant = |n: usize| self.constant[inputs[n].index()];
        if !spec.work.contraction || self.attention_heads(id).is_some() || (0..inputs.len()).all(constant) {
            return Vec::new();
        }
        let step = |label: usize, of_constants: bool| {
            let axes = (0..inputs.len()).filter(|&n| constant(n) == of_constants).flat_map(|n| &spec.operands[n].axes);
            let steps = axes.map(|map| match map {
                AxisMap::Affine(a) => a.terms.iter().find(|t| t.0 == label).map_or(0, |t| t.1.abs()),
                AxisMap::Div { .. } | AxisMap::Band(_) => i64::from(reads_label(map, label)),
            });
            steps.max().unwrap_or(0)
        };
        let free = |l: usize| spec.labels[l].role == Role::Free;
        let mut labels: Vec<usize> =
            (0..spec.rank).filter(|&l| free(l) && step(l, true) > 0 && step(l, false) == 0).collect();
        labels.sort_by_key(|&l| (-step(l, true), l));
        labels
    }

    /// Decides one row.
    fn row(&mut self, id: TensorId) {
        let node = self.graph.node(id);
        match &node.op {
            Op::Input(_) => {}
            Op::View(view) => {
                let shapes: Vec<&[usize]> = node.inputs.iter().map(|&i| self.graph.ty(i).shape.as_slice()).collect();
                let through = |n: usize, axis: usize, strips: &Strips| {
                    cut::forward(view, &shapes, &node.ty.shape, n, axis, strips)
                };
                for (n, &input) in node.inputs.iter().enumerate() {
                    if let Some(axis) = self.tokens[input.index()]
                        && self.tokens[id.index()].is_none()
                    {
                        let whole = vec![ein_ir::region::Interval::new(0, shapes[n][axis])];
                        self.tokens[id.index()] = through(n, axis, &whole).map(|t| t.0);
                    }
                    if let Some(cut) = &self.cuts[input.index()]
                        && self.cuts[id.index()].is_none()
                    {
                        let kind = cut.kind;
                        self.cuts[id.index()] =
                            through(n, cut.axis, &cut.strips).map(|(axis, strips)| Cut { axis, strips, kind });
                    }
                }
            }
            Op::Einsum(_) | Op::Kernel(_) => {
                let spec = self.graph.spec(id).expect("a row that computes has a spec");
                self.tokens[id.index()] = self.token_axis(id, &spec);
                let cut = if self.strategy == Strategy::OneDevice { None } else { self.label(id, &spec) };
                self.place(id, &spec, cut);
            }
        }
    }

    /// The axis of a row's result that its operands' axis of tokens becomes.
    fn token_axis(&self, id: TensorId, spec: &Spec) -> Option<usize> {
        let inputs = &self.graph.node(id).inputs;
        inputs.iter().enumerate().find_map(|(n, &input)| {
            let axis = self.tokens[input.index()]?;
            let whole = vec![ein_ir::region::Interval::new(0, self.graph.ty(input).shape[axis])];
            let (label, _) = cut::through_access(spec, &spec.operands[n].axes[axis], &whole)?;
            (label < spec.rank).then_some(label)
        })
    }

    /// The label that a row is cut on.
    fn label(&mut self, id: TensorId, spec: &Spec) -> Option<(usize, Strips, Kind)> {
        if let Some(strips) = self.heads.get(&id) {
            return Some((1, strips.clone(), Kind::Features));
        }
        if matches!(self.strategy, Strategy::Tensor | Strategy::TensorSequence) {
            let made = self.made(id, spec);
            let carried = self.carry(id, spec, &[Kind::Features]);
            if carried.is_some() {
                self.products |= !made.is_empty();
                return carried;
            }
            let enough = |l: &&usize| spec.labels[**l].extent >= self.workers.len();
            let cut = match (self.wanted.get(&id), made.iter().find(enough)) {
                (Some((label, strips)), _) => Some((*label, strips.clone(), Kind::Features)),
                (None, Some(&l)) => Some((l, cut::even_label(spec, l, self.workers.len()), Kind::Features)),
                (None, None) => None,
            };
            if cut.is_some() {
                self.products = true;
                return cut;
            }
        }
        self.carry(id, spec, &[Kind::Features, Kind::Rows])
    }

    /// The label that the operands' cuts cut; kinds in the order given, then the largest operand's.
    fn carry(&self, id: TensorId, spec: &Spec, kinds: &[Kind]) -> Option<(usize, Strips, Kind)> {
        let inputs = &self.graph.node(id).inputs;
        let mut order: Vec<usize> = (0..inputs.len()).collect();
        order.sort_by_key(|&n| (std::cmp::Reverse(self.graph.ty(inputs[n]).elements()), n));
        kinds.iter().find_map(|&kind| {
            order.iter().find_map(|&n| {
                let cut = self.cuts[inputs[n].index()].as_ref().filter(|c| c.kind == kind)?;
                let (label, strips) = cut::through_access(spec, &spec.operands[n].axes[cut.axis], &cut.strips)?;
                Some((label, strips, kind))
            })
        })
    }

    /// The keys of an attention: the label that it folds and that an operand's tokens become.
    fn keys(&self, id: TensorId, spec: &Spec) -> Option<usize> {
        self.attention_heads(id)?;
        self.graph.node(id).inputs.iter().enumerate().find_map(|(n, &input)| {
            let cut = self.cuts[input.index()].as_ref().filter(|c| c.kind == Kind::Rows)?;
            let (label, _) = cut::through_access(spec, &spec.operands[n].axes[cut.axis], &cut.strips)?;
            (label >= spec.rank && spec.labels[label].role == Role::Fold).then_some(label)
        })
    }

    /// Writes down a row's blocks, the home of its result, and how its readers may expect to find it.
    fn place(&mut self, id: TensorId, spec: &Spec, cut: Option<(usize, Strips, Kind)>) {
        let shape = &self.graph.ty(id).shape;
        let Some((label, strips, kind)) = cut else {
            self.choice.decompositions.insert(id, Decomposition::whole(&spec.space(), self.devices()));
            self.choice.homes.insert(id, Home::AsProduced);
            return;
        };
        let blocks = cut::blocks(spec, label, &strips, &self.workers);
        let keys = if self.strategy == Strategy::Ring { self.keys(id, spec) } else { None };
        let blocks =
            keys.map_or(blocks.clone(), |keys| cut::further(spec, &blocks, keys, self.devices().len().min(KEYS)));
        self.choice.decompositions.insert(id, blocks);
        let folded = label >= spec.rank || keys.is_some();
        // Partials go where the strategy keeps activations; so does what attention leaves under Ulysses.
        let moves = folded || (self.strategy == Strategy::Ulysses && self.heads.contains_key(&id));
        let (home, cut) = if moves {
            let rows = matches!(self.strategy, Strategy::TensorSequence | Strategy::Ulysses | Strategy::Ring);
            match self.tokens[id.index()].filter(|&a| rows && shape[a] > 0) {
                Some(axis) => {
                    let strips = cut::even(shape[axis], self.workers.len());
                    let held = holding::strips(shape, axis, &strips, &self.workers);
                    (Home::At(held), Some(Cut { axis, strips, kind: Kind::Rows }))
                }
                None => (Home::At(vec![Held { region: self.graph.ty(id).whole(), devices: self.devices() }]), None),
            }
        } else {
            (Home::AsProduced, Some(Cut { axis: label, strips, kind }))
        };
        self.choice.homes.insert(id, home);
        self.cuts[id.index()] = cut;
    }

    /// Refuses a graph in which the strategy found nothing to cut.
    fn has_cut(&self) -> Result<(), Refusal> {
        let products = matches!(self.strategy, Strategy::Tensor | Strategy::TensorSequence);
        if products && !self.products && self.heads.is_empty() {
            let devices = self.workers.len();
            return self.refuse(format!(
                "no product of an activation with a parameter has {devices} output features, one for each device"
            ));
        }
        Ok(())
    }

    /// Decides where what comes in is held, from what the rows need.
    fn hold(&mut self) {
        let mut needs = holding::needs(self.graph, &self.choice);
        let devices = self.devices();
        for id in self.graph.ids() {
            let Op::Input(kind) = self.graph.node(id).op else { continue };
            let ty = self.graph.ty(id);
            let whole = |devices| vec![Held { region: ty.whole(), devices }];
            let as_needed = |needs: &mut BTreeMap<_, _>| {
                holding::as_needed(&ty.whole(), needs.remove(&id).unwrap_or_default(), self.workers[0])
            };
            let longest = (0..ty.shape.len()).rev().max_by_key(|&a| ty.shape[a]);
            let evenly = || match longest {
                Some(axis) if ty.elements() > 0 => {
                    let strips = cut::even(ty.shape[axis], self.workers.len());
                    holding::strips(&ty.shape, axis, &strips, &self.workers)
                }
                _ => whole(DeviceSet::one(self.workers[0])),
            };
            let held = match kind {
                InputKind::Parameter => match self.strategy {
                    Strategy::OneDevice | Strategy::Data => whole(devices),
                    Strategy::FullyShardedData => evenly(),
                    Strategy::Tensor | Strategy::TensorSequence | Strategy::Ulysses | Strategy::Ring => {
                        as_needed(&mut needs)
                    }
                    Strategy::DataTensor { .. } | Strategy::Grid2d | Strategy::Grid3d | Strategy::Random(_) => {
                        unreachable!("not made of strips of one axis")
                    }
                },
                InputKind::State => as_needed(&mut needs),
                InputKind::Input => {
                    match (holding::asked(&ty.whole(), self.options.inputs, &self.workers), &self.cuts[id.index()]) {
                        (Some(asked), _) => asked,
                        (None, Some(cut)) if ty.elements() > 0 => {
                            holding::strips(&ty.shape, cut.axis, &cut.strips, &self.workers)
                        }
                        // Held once: in equal parts, so that all devices send when all need all of it.
                        (None, _) => evenly(),
                    }
                }
            };
            self.choice.homes.insert(id, Home::At(held));
        }
    }
}

/// Whether an axis is read at indices that depend on a label, causal limits aside.
fn reads_label(map: &AxisMap, label: usize) -> bool {
    match map {
        AxisMap::Affine(a) => a.depends_on(label),
        AxisMap::Div { label: l, .. } => *l == label,
        AxisMap::Band(band) => band.key == label,
    }
}
