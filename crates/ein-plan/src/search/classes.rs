//! Rows and tensors of equal structure, with what may be decided of them.

use super::{OpClass, Search, Share, SourceClass, State};
use crate::candidates::{Candidate, Richness, candidates};
use crate::choice::Decomposition;
use crate::error::PlanError;
use crate::layouts::{NeedsId, Offer, RelationId, Wanted, home_of, homes, largest_share, needs_of};
use crate::needs::{home_relation, operand_needs_of, output_needs, output_sources, produced_of, stacked};
use crate::options::{Objective, Placement};
use crate::price::seconds;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::{InputKind, Op};
use ein_ir::spec::Spec;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet};
use ein_task::relation::Held;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What makes two tensors equal to the search: producer, kind, type, readers, whether it is an output.
type TensorKey = (Option<usize>, Option<InputKind>, TensorType, Vec<(usize, usize)>, bool);

/// Where in a class a decomposition is that leaves and needs this.
pub(super) type Places = HashMap<(RelationId, Vec<Option<NeedsId>>), usize>;

impl OpClass {
    /// Where everything is.
    pub(super) fn places(&self) -> Places {
        let needs = |n: usize| self.needs.iter().map(|slot| slot[n]).collect();
        (0..self.seconds.len()).map(|n| ((self.produced[n], needs(n)), n)).collect()
    }

    /// Drops the last one.
    pub(super) fn pop(&mut self) {
        self.decompositions.pop();
        self.seconds.pop();
        self.produced.pop();
        self.needs.iter_mut().for_each(|slot| {
            slot.pop();
        });
    }

    /// Drops what cannot fit: a device needs operands and result at once. Where nothing fits, the least stays.
    fn keep_fitting(&mut self, working: &[f64], limit: f64) {
        let least = working.iter().copied().fold(f64::INFINITY, f64::min);
        let keep: Vec<usize> = (0..working.len()).filter(|&n| working[n] <= limit.max(least)).collect();
        let pick = |n: &usize| self.decompositions[*n].clone();
        self.decompositions = keep.iter().map(pick).collect();
        self.seconds = keep.iter().map(|&n| self.seconds[n]).collect();
        self.produced = keep.iter().map(|&n| self.produced[n]).collect();
        for slot in &mut self.needs {
            *slot = keep.iter().map(|&n| slot[n]).collect();
        }
    }
}

impl Search<'_> {
    pub(super) fn classify_rows(&mut self, richness: Richness) -> Result<(), PlanError> {
        // Tables grow with the product of the candidates of neighbours: every cut of every row is for one row, or
        // for two devices, where there are few.
        let rows = self.graph.ids().filter(|&id| self.graph.spec(id).is_some()).count();
        let tiny = richness.tiny && (rows == 1 || self.workers.len() <= 2);
        let queries = |id| self.graph.spec(id).and_then(|s| s.work.band.map(|band| s.labels[band.query].extent));
        let causal = self.graph.ids().filter_map(queries).max().unwrap_or(0);
        let richness = Richness { tiny, causal, ..richness };
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut new: Vec<(TensorId, Spec)> = Vec::new();
        for id in self.graph.ids() {
            self.go_on()?;
            let Some(spec) = self.graph.spec(id) else { continue };
            let (key, sources) = structure(self.graph, id, &spec);
            let class = *known.entry(key).or_insert_with(|| {
                new.push((id, spec));
                new.len() - 1
            });
            self.rows.insert(id, (class, sources));
        }
        for (id, spec) in new {
            self.go_on()?;
            let class = self.op_class(id, &spec, richness);
            self.ops.push(class);
        }
        Ok(())
    }

    fn op_class(&mut self, id: TensorId, spec: &Spec, richness: Richness) -> OpClass {
        let mut list = candidates(spec, self.machine, richness);
        let sources = self.rows[&id].1.clone();
        if self.options.objective == Objective::Bytes && self.options.balance && spec.work.contraction {
            // Where nothing is balanced, the most balanced there is.
            let least = list.iter().map(|c| c.balance / c.snapping).fold(f64::INFINITY, f64::min);
            let any = list.iter().any(Candidate::is_balanced);
            list.retain(|c| if any { c.is_balanced() } else { c.balance / c.snapping <= least + 1e-9 });
        }
        let mut class = OpClass {
            decompositions: Vec::new(),
            seconds: Vec::new(),
            produced: Vec::new(),
            needs: vec![Vec::new(); sources.len()],
        };
        let mut working_sets = Vec::new();
        let mut places = Places::new();
        for candidate in list {
            working_sets.extend(self.enter(&mut class, &mut places, id, spec, candidate.decomposition));
        }
        class.keep_fitting(&working_sets, self.limit);
        class
    }

    /// Enters a decomposition of a row in its class, unless another that leaves and needs the same takes no longer. If it is
    /// one more, the most bytes that it needs on a device at once.
    pub(super) fn enter(
        &mut self,
        class: &mut OpClass,
        places: &mut Places,
        id: TensorId,
        spec: &Spec,
        decomposition: Decomposition,
    ) -> Option<f64> {
        let is_map = matches!(&self.graph.node(id).op, Op::Einsum(e) if !e.folds());
        let left = produced_of(self.graph, id, spec, &decomposition, self.options.wide_partials);
        let mut result: BTreeMap<DeviceId, f64> = BTreeMap::new();
        for b in &left.blocks {
            for d in b.devices.iter() {
                *result.entry(d).or_default() += left.pending.bytes(&b.region) as f64;
            }
        }
        let (mut working, mut largest) = (result.clone(), BTreeMap::new());
        let mut lists = operand_needs_of(self.graph, id, spec, &decomposition);
        let mut needs: Vec<Option<NeedsId>> = Vec::new();
        for source in &self.rows[&id].1 {
            let Some(list) = lists.remove(source).filter(|l| !l.is_empty()) else {
                needs.push(None);
                continue;
            };
            let element = self.graph.ty(*source).dtype.bytes() as f64;
            let mut operand: BTreeMap<DeviceId, f64> = BTreeMap::new();
            for n in &list {
                *operand.entry(n.device).or_default() += n.region.volume() as f64 * element;
            }
            for (d, bytes) in operand {
                *working.entry(d).or_default() += bytes;
                largest.entry(d).and_modify(|l: &mut f64| *l = l.max(bytes)).or_insert(bytes);
            }
            needs.push(Some(self.layouts.needs(list)));
        }
        let produced = self.layouts.relation(left);
        let time = seconds(spec, &decomposition, self.machine).0;
        if !time.is_finite() {
            return None;
        }
        let at = *places.entry((produced, needs.clone())).or_insert(class.seconds.len());
        if at < class.seconds.len() {
            if time < class.seconds[at] {
                class.seconds[at] = time;
                class.decompositions[at] = decomposition;
            }
            return None;
        }
        class.decompositions.push(decomposition);
        class.seconds.push(time);
        class.produced.push(produced);
        class.needs.iter_mut().zip(needs).for_each(|(slot, n)| slot.push(n));
        // A map takes the place of what it reads, or is made with it: those two are one.
        let once = |d: &DeviceId| {
            let both = [&result, &largest].map(|of| of.get(d).copied().unwrap_or_default());
            if is_map { both[0].min(both[1]) } else { 0.0 }
        };
        Some(working.iter().map(|(d, all)| all - once(d)).fold(0.0, f64::max))
    }

    pub(super) fn classify_tensors(&mut self) -> Result<(), PlanError> {
        let shown = output_sources(self.graph);
        let wanted = output_needs(self.graph, self.options, self.machine);
        let mut readers: BTreeMap<TensorId, Vec<(TensorId, usize)>> = BTreeMap::new();
        for (&row, (_, sources)) in &self.rows {
            for (slot, &source) in sources.iter().enumerate() {
                readers.entry(source).or_default().push((row, slot));
            }
        }
        let mut known: HashMap<TensorKey, usize> = HashMap::new();
        for id in self.graph.ids() {
            self.go_on()?;
            let node = self.graph.node(id);
            let (producer, kind) = match node.op {
                Op::View(_) => continue,
                Op::Input(kind) => (None, Some(kind)),
                Op::Einsum(_) | Op::Kernel(_) => (Some(self.rows[&id].0), None),
            };
            let read = readers.remove(&id).unwrap_or_default();
            let classes: Vec<(usize, usize)> = read.iter().map(|(r, slot)| (self.rows[r].0, *slot)).collect();
            let key = (producer, kind, node.ty.clone(), classes.clone(), shown.contains(&id));
            let class = known.get(&key).copied().unwrap_or_else(|| {
                let class = self.source_class(id, producer, kind, classes, wanted.get(&id));
                self.sources.push(class);
                known.insert(key, self.sources.len() - 1);
                self.sources.len() - 1
            });
            self.tensors.insert(id, (class, read.into_iter().map(|r| r.0).collect()));
        }
        Ok(())
    }

    fn source_class(
        &mut self,
        id: TensorId,
        producer: Option<usize>,
        kind: Option<InputKind>,
        readers: Vec<(usize, usize)>,
        wanted: Option<&Vec<Need>>,
    ) -> SourceClass {
        let ty = self.graph.ty(id).clone();
        let resident = matches!(kind, Some(InputKind::Parameter | InputKind::State));
        let read: BTreeSet<NeedsId> =
            readers.iter().flat_map(|&(c, slot)| self.ops[c].needs[slot].iter().flatten().copied()).collect();
        let outputs = wanted.map(|w| self.layouts.needs(w.clone()));
        let element = ty.dtype.bytes();
        let lists: Vec<NeedsId> = read.iter().copied().chain(outputs).collect::<BTreeSet<_>>().into_iter().collect();
        let mut own_homes = BTreeMap::new();
        if resident && readers.len() == 1 && outputs.is_none() {
            for &list in &lists {
                let held = home_of(self.layouts.needs_at(list), &ty.whole());
                own_homes.extend(held.map(|held| (list, share(&held, element, &self.workers))));
            }
            if own_homes.len() < lists.len() {
                own_homes.clear();
            }
        }
        let split = BTreeSet::new();
        let (states, principal) = (Vec::new(), None);
        SourceClass { producer, readers, outputs, resident, element, states, own_homes, lists, principal, split }
    }

    /// Finds the values of the home variable of a class, of which `id` is one.
    pub(super) fn find_states(&mut self, class: usize, id: TensorId) {
        let ty = self.graph.ty(id).clone();
        let kind = match self.graph.node(id).op {
            Op::Input(kind) => Some(kind),
            Op::Einsum(_) | Op::Kernel(_) | Op::View(_) => None,
        };
        let own = &self.sources[class];
        let (producer, outputs, resident, alone) = (own.producer, own.outputs, own.resident, own.readers.len() == 1);
        let shown = output_sources(self.graph).contains(&id);
        let produced: BTreeSet<RelationId> =
            producer.into_iter().flat_map(|c| self.ops[c].produced.iter().copied()).collect();
        let slots = own.readers.iter().flat_map(|&(c, slot)| self.ops[c].needs[slot].iter().flatten().copied());
        let read: BTreeSet<NeedsId> = slots.collect();
        let whole = |devices: DeviceSet| vec![Held { region: ty.whole(), devices }];
        let placed = match (kind, self.options.inputs) {
            (Some(InputKind::Input), Placement::Replicated) => Some(whole(self.machine.workers())),
            (Some(InputKind::Input), Placement::Device(d)) => Some(whole(DeviceSet::one(d))),
            _ => None,
        };
        let held = match placed {
            Some(held) => vec![Offer { held, only: None }],
            None => homes(&Wanted {
                ty: &ty,
                stacked: stacked(self.graph, id).is_some(),
                workers: &self.workers,
                hosts: if resident { &self.hosts } else { &[] },
                produced: produced.iter().map(|&r| self.layouts.relation_at(r)).collect(),
                needs: read.iter().chain(&outputs).map(|&n| self.layouts.needs_at(n)).collect(),
                once: kind == Some(InputKind::Input),
                direct: producer.is_some() && !shown && alone,
            }),
        };
        let element = ty.dtype.bytes();
        let mut states = Vec::new();
        for &relation in &produced {
            let left = self.layouts.relation_at(relation);
            let open = shown && self.options.outputs == Placement::Anywhere && !self.layouts.is_complete(relation);
            if open {
                continue;
            }
            let share = share(&left.blocks, element, &self.workers);
            states.push(State { held: None, relation, needs: None, only: Some(relation), extra: None, share });
        }
        let produced: Vec<RelationId> = produced.into_iter().collect();
        for Offer { held, only } in held {
            let only = only.map(|n| produced[n]);
            let relation = self.layouts.relation(home_relation(self.graph, id, &held));
            // A home that some candidate leaves by itself is that candidate's `as produced`.
            let needs = self.layouts.needs(needs_of(&held));
            let share = share(&held, element, &self.workers);
            states.push(State { held: Some(held), relation, needs: Some(needs), only, extra: None, share });
        }
        if kind == Some(InputKind::Input) && !alone {
            self.share_hand_outs(&mut states, &read);
        }
        self.sources[class].states = states;
    }
}

/// What of these blocks the devices that compute hold.
pub(super) fn share(blocks: &[Held], element: usize, workers: &[DeviceId]) -> Share {
    let everyone: DeviceSet = workers.iter().copied().collect();
    let computing = |h: &Held| Held { region: h.region.clone(), devices: h.devices.intersect(everyone) };
    let blocks: Vec<Held> = blocks.iter().map(computing).collect();
    let all: usize = blocks.iter().map(|h| h.region.volume() * h.devices.len()).sum();
    Share { mean: (all * element) as f64 / workers.len() as f64, largest: largest_share(&blocks, element) }
}

/// What makes two rows equal to the search, and the sources a row reads in the order in which it meets them.
fn structure(graph: &Graph, id: TensorId, spec: &Spec) -> (String, Vec<TensorId>) {
    let mut nameless = spec.clone();
    nameless.labels.iter_mut().for_each(|l| l.name.clear());
    let mut key = format!("{nameless:?}{:?}", graph.ty(id));
    let mut sources = Vec::new();
    for &operand in &graph.node(id).inputs {
        behind(graph, operand, &mut sources, &mut key);
    }
    (key, sources)
}

/// Writes the views between a row and its sources.
fn behind(graph: &Graph, tensor: TensorId, sources: &mut Vec<TensorId>, key: &mut String) {
    let node = graph.node(tensor);
    match &node.op {
        Op::View(view) => {
            key.push_str(&format!("({view:?}"));
            for &input in &node.inputs {
                behind(graph, input, sources, key);
            }
            key.push(')');
        }
        Op::Input(_) | Op::Einsum(_) | Op::Kernel(_) => {
            let at = sources.iter().position(|s| *s == tensor).unwrap_or_else(|| {
                sources.push(tensor);
                sources.len() - 1
            });
            key.push_str(&format!("[{at}:{:?}]", node.ty));
        }
    }
}
