//! Strategies on two small decoder layers: with heads as labels of the products, and with plain products that
//! are reshaped and permuted into heads.

use super::grid::tests::product;
use super::{Refusal, fixed};
use crate::choice::{Choice, Home};
use crate::exchanges::exchanges;
use crate::lower::lower;
use crate::needs::{operand_needs, produced, tidy};
use crate::options::{Options, Placement, Strategy};
use crate::synthesis::{Aim, synthesize_for};
use ein_ir::dtype::DType;
use ein_ir::einsum::{Access, Affine, Einsum, Label};
use ein_ir::expr::{Binary, Expr};
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::kernel::{Attention, Gather, Kernel};
use ein_ir::monoid::Monoid;
use ein_ir::op::{InputKind, Op};
use ein_ir::region::{Region, tiles};
use ein_ir::spec::Role;
use ein_ir::view::View;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::Held;
use ein_task::simulate::simulate;
use ein_task::traffic::traffic;
use std::collections::BTreeMap;

#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub batch: usize,
    pub tokens: usize,
    pub heads: usize,
    pub kv: usize,
    pub dim: usize,
    pub inner: usize,
    /// Whether products have heads as labels, or views make them.
    pub labels: bool,
}

const SMALL: Sizes = Sizes { batch: 4, tokens: 8, heads: 4, kv: 2, dim: 4, inner: 12, labels: true };

struct Model {
    graph: Graph,
    s: Sizes,
}

impl Model {
    fn hidden(&self) -> usize {
        self.s.heads * self.s.dim
    }

    fn parameter(&mut self, name: &str, shape: &[usize]) -> TensorId {
        self.graph.input(name, InputKind::Parameter, TensorType::new(DType::F32, shape)).unwrap()
    }

    /// A map over the axes of the result.
    fn map(&mut self, name: &str, function: Binary, operands: &[(TensorId, Vec<usize>)]) -> TensorId {
        let first = self.graph.ty(operands[0].0).shape.clone();
        let labels = first.iter().enumerate().map(|(n, &e)| Label::new(format!("l{n}"), e)).collect();
        let mut join = Expr::new();
        let mut value = join.push_operand(0, DType::F32);
        for n in 1..operands.len() {
            let next = join.push_operand(n, DType::F32);
            value = join.binary(function, value, next).unwrap();
        }
        let accesses = operands.iter().map(|o| Access::labels(&o.1)).collect();
        let einsum = Einsum { labels, rank: first.len(), accesses, join, monoid: Monoid::Sum, dtype: DType::F32 };
        self.graph.einsum(name, einsum, &operands.iter().map(|o| o.0).collect::<Vec<_>>()).unwrap()
    }

    fn norm(&mut self, name: &str, x: TensorId) -> TensorId {
        let hidden = self.hidden();
        let weight = self.parameter(&format!("{name}.weight"), &[hidden]);
        let squares = self.graph.contraction(&format!("{name}.squares"), "bsk,bsk->bs", &[x, x]).unwrap();
        self.map(name, Binary::Mul, &[(x, vec![0, 1, 2]), (squares, vec![0, 1]), (weight, vec![2])])
    }

    fn linear(&mut self, name: &str, x: TensorId, out: usize) -> TensorId {
        let k = *self.graph.ty(x).shape.last().unwrap();
        let weight = self.parameter(&format!("{name}.weight"), &[out, k]);
        self.graph.contraction(name, "bsk,nk->bsn", &[x, weight]).unwrap()
    }

    fn heads_of(&mut self, name: &str, x: TensorId, heads: usize) -> TensorId {
        let Sizes { batch: b, tokens: s, dim: d, .. } = self.s;
        if !self.s.labels {
            let product = self.linear(name, x, heads * d);
            let split = View::Reshape { shape: vec![b, s, heads, d] };
            let split = self.graph.view(&format!("{name}.split"), split, &[product]).unwrap();
            let axes = View::Permute { axes: vec![0, 2, 1, 3] };
            return self.graph.view(&format!("{name}.heads"), axes, &[split]).unwrap();
        }
        let k = self.hidden();
        let weight = self.parameter(&format!("{name}.weight"), &[heads * d, k]);
        let labels = [("b", b), ("h", heads), ("s", s), ("d", d), ("k", k)];
        let row = Affine { terms: vec![(1, d as i64), (3, 1)], offset: 0 };
        let accesses = vec![Access::labels(&[0, 2, 4]), Access { axes: vec![row, Affine::label(4)] }];
        self.product(name, &labels, 4, accesses, &[x, weight])
    }

    fn merged(&mut self, name: &str, x: TensorId) -> TensorId {
        let Sizes { batch: b, tokens: s, heads, dim: d, .. } = self.s;
        let n = self.hidden();
        if !self.s.labels {
            let axes = View::Permute { axes: vec![0, 2, 1, 3] };
            let back = self.graph.view(&format!("{name}.back"), axes, &[x]).unwrap();
            let merged = View::Reshape { shape: vec![b, s, n] };
            let merged = self.graph.view(&format!("{name}.merged"), merged, &[back]).unwrap();
            return self.linear(name, merged, n);
        }
        let weight = self.parameter(&format!("{name}.weight"), &[n, n]);
        let labels = [("b", b), ("s", s), ("n", n), ("h", heads), ("d", d)];
        let column = Affine { terms: vec![(3, d as i64), (4, 1)], offset: 0 };
        let accesses = vec![Access::labels(&[0, 3, 1, 4]), Access { axes: vec![Affine::label(2), column] }];
        self.product(name, &labels, 3, accesses, &[x, weight])
    }

    fn product(
        &mut self,
        name: &str,
        labels: &[(&str, usize)],
        rank: usize,
        accesses: Vec<Access>,
        inputs: &[TensorId],
    ) -> TensorId {
        let labels = labels.iter().map(|l| Label::new(l.0, l.1)).collect();
        let join = Expr::product(2, DType::F32);
        let einsum = Einsum { labels, rank, accesses, join, monoid: Monoid::Sum, dtype: DType::F32 };
        self.graph.einsum(name, einsum, inputs).unwrap()
    }

    fn layer(&mut self, n: usize, x: TensorId) -> TensorId {
        let Sizes { batch, tokens, heads, kv, dim, inner, .. } = self.s;
        let all = || vec![0, 1, 2];
        let normed = self.norm(&format!("{n}.norm1"), x);
        let q = self.heads_of(&format!("{n}.q"), normed, heads);
        // Something element-wise between the product and attention, as a rotation would be.
        let q = self.map(&format!("{n}.rotated"), Binary::Add, &[(q, vec![0, 1, 2, 3])]);
        let k = self.heads_of(&format!("{n}.k"), normed, kv);
        let v = self.heads_of(&format!("{n}.v"), normed, kv);
        let attention = Attention {
            batch,
            heads,
            kv_heads: kv,
            queries: tokens,
            keys: tokens,
            dim,
            value_dim: dim,
            causal: true,
            window: None,
            softcap: None,
            packed: None,
            own: false,
            mask: None,
            scale: 0.5_f64.to_bits(),
            dtype: DType::F32,
        };
        let out = self.graph.kernel(&format!("{n}.attention"), Kernel::Attention(attention), &[q, k, v]).unwrap();
        let o = self.merged(&format!("{n}.o"), out);
        let x = self.map(&format!("{n}.residual1"), Binary::Add, &[(x, all()), (o, all())]);
        let normed = self.norm(&format!("{n}.norm2"), x);
        let gate = self.linear(&format!("{n}.gate"), normed, inner);
        let up = self.linear(&format!("{n}.up"), normed, inner);
        let both = self.map(&format!("{n}.both"), Binary::Mul, &[(gate, all()), (up, all())]);
        let down = self.linear(&format!("{n}.down"), both, self.hidden());
        self.map(&format!("{n}.residual2"), Binary::Add, &[(x, all()), (down, all())])
    }
}

/// Ids, an embedding, two layers and an output layer of 10 words.
pub(crate) fn model(s: Sizes) -> Graph {
    let mut m = Model { graph: Graph::new(), s };
    let ids = TensorType::new(DType::I64, [s.batch, s.tokens]);
    let ids = m.graph.input("ids", InputKind::Input, ids).unwrap();
    let features = m.hidden();
    let table = m.parameter("table", &[10, features]);
    let gather = Gather::rows(10, features, &[s.batch, s.tokens], DType::F32);
    let mut x = m.graph.kernel("words", Kernel::Gather(gather), &[table, ids]).unwrap();
    for n in 0..2 {
        x = m.layer(n, x);
    }
    let logits = m.linear("logits", x, 10);
    m.graph.output("logits", logits).unwrap();
    m.graph
}

pub(super) fn machine(devices: usize) -> Machine {
    Machine::by_name("8xa100-ideal").unwrap().first(devices).unwrap()
}

fn choose(strategy: Strategy, s: Sizes, devices: usize) -> (Graph, Choice) {
    let graph = model(s);
    let choice = fixed(strategy, &graph, &machine(devices), &Options::default()).unwrap();
    (graph, choice)
}

/// A home's blocks, or those that the producer leaves.
fn held(graph: &Graph, choice: &Choice, tensor: TensorId) -> Vec<Held> {
    match &choice.homes[&tensor] {
        Home::At(held) => held.clone(),
        Home::AsProduced => produced(graph, tensor, &choice.decompositions[&tensor], false).blocks,
    }
}

/// What the choice says of a row: the labels that are cut with their blocks, then the home.
pub(super) fn show(graph: &Graph, choice: &Choice, name: &str) -> String {
    let id = graph.find(name).unwrap();
    let blocks = |list: Vec<(Region, DeviceSet)>, whole: &Region, names: &[String]| {
        let axes: Vec<usize> = (0..whole.rank()).filter(|&a| list.iter().any(|b| b.0.0[a] != whole.0[a])).collect();
        let one = |b: &(Region, DeviceSet)| {
            let cut: Vec<String> = axes.iter().map(|&a| format!("{}:{}", b.0.0[a].lo, b.0.0[a].hi)).collect();
            format!("{}@{}", if cut.is_empty() { "whole".into() } else { cut.join(",") }, b.1)
        };
        let axes: Vec<&str> = axes.iter().map(|&a| names[a].as_str()).collect();
        let list: Vec<String> = list.iter().map(one).collect();
        format!("{}[{}]", axes.join(","), list.join(" "))
    };
    let mut out = String::new();
    if let Some(d) = choice.decompositions.get(&id) {
        let spec = graph.spec(id).unwrap();
        let names: Vec<String> = spec.labels.iter().map(|l| l.name.clone()).collect();
        let list = d.blocks().iter().map(|b| (b.region.clone(), b.devices)).collect();
        out = blocks(list, &spec.space(), &names);
    }
    if let Home::At(held) = &choice.homes[&id] {
        let whole = graph.ty(id).whole();
        let names: Vec<String> = (0..whole.rank()).map(|n| n.to_string()).collect();
        let list = held.iter().map(|h| (h.region.clone(), h.devices)).collect();
        out = format!("{out} home {}", blocks(list, &whole, &names));
    }
    out.trim().into()
}

/// Elements that readers get from elsewhere, each distinct box once a device.
fn handed_out(graph: &Graph, choice: &Choice) -> usize {
    let mut needs: BTreeMap<TensorId, Vec<_>> = BTreeMap::new();
    for (&reader, d) in &choice.decompositions {
        for (source, list) in operand_needs(graph, reader, d) {
            needs.entry(source).or_default().extend(list);
        }
    }
    let missing = |(source, list): (TensorId, Vec<_>)| {
        let blocks = held(graph, choice, source);
        let elsewhere = tidy(list).into_iter().map(|n: ein_task::exchange::Need| {
            let here = blocks.iter().filter(|b| b.devices.contains(n.device));
            n.region.volume() - here.map(|b| b.region.overlap(&n.region)).sum::<usize>()
        });
        elsewhere.sum::<usize>()
    };
    needs.into_iter().map(missing).sum()
}

/// Strategies for a model and so many devices; some drawn, too.
fn for_models(devices: usize) -> impl Iterator<Item = Strategy> {
    let grids = [Strategy::Grid2d, Strategy::Grid3d];
    let listed = Strategy::compared(devices).into_iter().filter(move |s| !grids.contains(s));
    listed.chain((0..8).map(Strategy::Random))
}

#[test]
fn every_choice_is_complete_and_legal() {
    for devices in 1..=4 {
        for strategy in for_models(devices) {
            for labels in [true, false] {
                let (graph, choice) = choose(strategy, Sizes { labels, ..SMALL }, devices);
                for id in graph.ids() {
                    let node = graph.node(id);
                    let place = format!("{} of {} on {devices}", node.name, strategy.name());
                    let Some(spec) = graph.spec(id) else {
                        assert!(!choice.decompositions.contains_key(&id), "{place}");
                        assert_eq!(choice.homes.contains_key(&id), matches!(node.op, Op::Input(_)), "{place}");
                        continue;
                    };
                    let blocks = choice.decompositions[&id].blocks();
                    let regions: Vec<Region> = blocks.iter().map(|b| b.region.clone()).collect();
                    assert!(tiles(&regions, &spec.space()), "{place}");
                    for (l, label) in spec.labels.iter().enumerate().filter(|(_, l)| l.role == Role::Whole) {
                        assert!(blocks.iter().all(|b| b.region.0[l].len() == label.extent), "{place}");
                    }
                    assert!(choice.homes.contains_key(&id), "{place}");
                }
                for (&id, home) in &choice.homes {
                    let Home::At(held) = home else { continue };
                    let regions: Vec<Region> = held.iter().map(|h| h.region.clone()).collect();
                    assert!(tiles(&regions, &graph.ty(id).whole()), "{} is {held:?}", graph.node(id).name);
                    let known = |h: &Held| h.devices.iter().all(|d| d.index() < devices) && !h.devices.is_empty();
                    assert!(held.iter().all(known));
                }
                // Folded where partials are, never left pending for a reader, unless that was drawn.
                let all = choice.decompositions.iter().filter(|_| !matches!(strategy, Strategy::Random(_)));
                for (&id, d) in all {
                    let complete = produced(&graph, id, d, false).is_complete();
                    assert!(complete || matches!(choice.homes[&id], Home::At(_)), "{}", graph.node(id).name);
                }
            }
        }
    }
}

#[test]
fn strategies_cut_what_they_are_known_for() {
    let check = |strategy: Strategy, labels: bool, rows: &[(&str, &str)]| {
        let (graph, choice) = choose(strategy, Sizes { labels, ..SMALL }, 4);
        for (name, expected) in rows {
            assert_eq!(show(&graph, &choice, name), *expected, "{name} of {}", strategy.name());
        }
    };
    let four = "0:1@{0} 1:2@{1} 2:3@{2} 3:4@{3}";
    let pairs = "0:2@{0} 2:4@{1} 4:6@{2} 6:8@{3}";
    let threes = "0:3@{0} 3:6@{1} 6:9@{2} 9:12@{3}";
    let quarters = "0:4@{0} 4:8@{1} 8:12@{2} 12:16@{3}";
    let all = "[whole@{0,1,2,3}]";
    check(
        Strategy::OneDevice,
        true,
        &[("ids", "home [whole@{0}]"), ("table", "home [whole@{0}]"), ("1.o", "[whole@{0}]")],
    );
    for labels in [true, false] {
        check(
            Strategy::Data,
            labels,
            &[
                ("ids", &format!("home 0[{four}]")),
                ("table", &format!("home {all}")),
                ("words", &format!("n0[{four}]")),
                ("0.norm1", &format!("l0[{four}]")),
                ("0.attention", &format!("b[{four}]")),
                ("1.o", &format!("b[{four}]")),
                ("1.residual2", &format!("l0[{four}]")),
                ("logits", &format!("b[{four}]")),
            ],
        );
        check(
            Strategy::FullyShardedData,
            labels,
            &[
                ("0.gate.weight", &format!("home 1[{quarters}]")),
                ("0.norm1.weight", &format!("home 0[{quarters}]")),
                ("table", &format!("home 1[{quarters}]")),
                ("0.gate", &format!("b[{four}]")),
            ],
        );
        // Two key/value heads on four devices: a pair of devices computes each of them.
        let twos = "0:1@{0,1} 1:2@{2,3}";
        let folded = |label: &str, strips: &str, home: &str| format!("{label}[{strips}] home {home}");
        let (q, k, v, o) = if labels {
            (format!("h[{four}]"), format!("h[{twos}]"), format!("h[{twos}]"), ("h", four))
        } else {
            let eights = "0:4@{0,1} 4:8@{2,3}";
            (format!("n[{quarters}]"), format!("n[{eights}]"), format!("n[{eights}]"), ("k", quarters))
        };
        let shared = [
            ("0.q", q.as_str()),
            ("1.k", &k),
            ("1.v", &v),
            ("0.rotated", &format!("l1[{four}]")),
            ("0.attention", &format!("h[{four}]")),
            ("0.gate", &format!("n[{threes}]")),
            ("0.both", &format!("l2[{threes}]")),
            ("logits", "n[0:3@{0} 3:6@{1} 6:8@{2} 8:10@{3}]"),
            ("0.q.weight", &format!("home 0[{quarters}]")),
            ("0.k.weight", "home 0[0:4@{0,1} 4:8@{2,3}]"),
            ("0.o.weight", &format!("home 1[{quarters}]")),
            ("0.gate.weight", &format!("home 0[{threes}]")),
            ("0.down.weight", &format!("home 1[{threes}]")),
            ("table", &format!("home {all}")),
        ];
        check(Strategy::Tensor, labels, &shared);
        check(Strategy::TensorSequence, labels, &shared);
        check(
            Strategy::Tensor,
            labels,
            &[
                ("ids", &format!("home 1[{pairs}]")),
                ("words", all),
                ("0.norm1.squares", all),
                ("0.norm1", all),
                ("0.o", &folded(o.0, o.1, all)),
                ("0.residual1", all),
                ("0.down", &folded("k", threes, all)),
            ],
        );
        check(
            Strategy::TensorSequence,
            labels,
            &[
                ("words", &format!("n1[{pairs}]")),
                ("0.norm1.squares", &format!("s[{pairs}]")),
                ("0.norm1", &format!("l1[{pairs}]")),
                ("0.o", &folded(o.0, o.1, &format!("1[{pairs}]"))),
                ("0.residual1", &format!("l1[{pairs}]")),
                ("1.down", &folded("k", threes, &format!("1[{pairs}]"))),
            ],
        );
        check(
            Strategy::Ulysses,
            labels,
            &[
                ("ids", &format!("home 1[{pairs}]")),
                ("0.norm1", &format!("l1[{pairs}]")),
                ("0.q", &format!("s[{pairs}]")),
                ("0.k", &format!("s[{pairs}]")),
                ("0.rotated", &format!("l2[{pairs}]")),
                ("0.attention", &format!("h[{four}] home 2[{pairs}]")),
                ("0.o", &format!("s[{pairs}]")),
                ("0.gate", &format!("s[{pairs}]")),
                ("logits", &format!("s[{pairs}]")),
                ("0.gate.weight", &format!("home {all}")),
            ],
        );
        // Later queries see more: a device has tokens of both ends, and folds over a quarter of the keys at a time.
        let strips = [(0, 1, 0), (1, 2, 1), (2, 3, 2), (3, 5, 3), (5, 6, 2), (6, 7, 1), (7, 8, 0)];
        let ends = strips.map(|(lo, hi, d)| format!("{lo}:{hi}@{{{d}}}")).join(" ");
        let keys =
            |(lo, hi, d): (usize, usize, usize)| [0, 2, 4, 6].map(|k| format!("{lo}:{hi},{k}:{}@{{{d}}}", k + 2));
        let fold = strips.map(|strip| keys(strip).join(" ")).join(" ");
        check(
            Strategy::Ring,
            labels,
            &[
                ("ids", &format!("home 1[{ends}]")),
                ("0.k", &format!("s[{ends}]")),
                ("0.attention", &format!("s,t[{fold}] home 2[{ends}]")),
                ("1.o", &format!("s[{ends}]")),
                ("logits", &format!("s[{ends}]")),
                ("0.gate.weight", &format!("home {all}")),
            ],
        );
        // Two groups of two.
        let grouped = "0:2,0:6@{0} 0:2,6:12@{1} 2:4,0:6@{2} 2:4,6:12@{3}";
        check(
            Strategy::DataTensor { data: 2, tensor: 2 },
            labels,
            &[
                ("ids", "home 0,1[0:2,0:4@{0} 0:2,4:8@{1} 2:4,0:4@{2} 2:4,4:8@{3}]"),
                ("words", "n0[0:2@{0,1} 2:4@{2,3}]"),
                ("0.attention", "b,h[0:2,0:2@{0} 0:2,2:4@{1} 2:4,0:2@{2} 2:4,2:4@{3}]"),
                ("0.gate", &format!("b,n[{grouped}]")),
                ("0.gate.weight", "home 0[0:6@{0,2} 6:12@{1,3}]"),
                ("0.down", &format!("b,k[{grouped}] home 0[0:2@{{0,1}} 2:4@{{2,3}}]")),
                ("table", &format!("home {all}")),
            ],
        );
    }
}

#[test]
fn draws_differ_by_their_seed_alone() {
    let drawn = |seed: u64| choose(Strategy::Random(seed), SMALL, 4).1;
    assert_eq!(drawn(3), drawn(3));
    assert_ne!(drawn(3), drawn(4));
}

#[test]
fn strategies_move_what_they_are_known_to_move() {
    let check = |strategy: Strategy, expected: usize| {
        for labels in [true, false] {
            let (graph, choice) = choose(strategy, Sizes { labels, ..SMALL }, 4);
            assert_eq!(handed_out(&graph, &choice), expected, "{} with labels {labels}", strategy.name());
        }
    };
    let (x, ids, kv) = (4 * 8 * 16, 4 * 8, 4 * 8 * 8);
    let parameters =
        |graph: &Graph| graph.inputs(InputKind::Parameter).iter().map(|&p| graph.ty(p).elements()).sum::<usize>();
    check(Strategy::OneDevice, 0);
    check(Strategy::Data, 0);
    // Every device gets the three quarters that it does not hold.
    check(Strategy::FullyShardedData, 3 * parameters(&model(SMALL)));
    // The ids to all; partial sums go to homes that readers have.
    check(Strategy::Tensor, 3 * ids);
    // Two norms a layer and what the output layer reads.
    check(Strategy::TensorSequence, 5 * 3 * x);
    // The queries' three quarters that are not at home; half of the keys and values goes to each device, which
    // has a quarter of the tokens. What attention leaves goes home before it is handed out.
    check(Strategy::Ulysses, 2 * (3 * x / 4 + 2 * (4 * 3 * kv / 8)));
}

#[test]
fn bytes_over_links_are_the_closed_forms() {
    let graph = model(SMALL);
    let machine = machine(4);
    let options = Options::default();
    let check = |strategy: Strategy, expected: usize| {
        let choice = fixed(strategy, &graph, &machine, &options).unwrap();
        let crossing = exchanges(&graph, &choice, &options, &machine).unwrap().into_iter().map(|p| {
            let program = synthesize_for(&p.exchange, &machine, Aim::Bytes).unwrap();
            traffic(&p.exchange, &program, &machine).bytes_total.0
        });
        assert_eq!(crossing.sum::<u64>(), expected as u64, "{}", strategy.name());
        // And the choice can be lowered and run on the machine.
        let tasks = lower(&graph, &choice, &machine, &options).unwrap();
        let end = simulate(&tasks, &machine).makespan().0;
        assert!(end > 0.0 && end < 1e-3, "{} takes {end} s", strategy.name());
    };
    let (p, x, kv, ids) = (4, 4 * 4 * 8 * 16, 4 * 4 * 8 * 8, 8 * 4 * 8);
    let parameters: u64 = graph.inputs(InputKind::Parameter).iter().map(|&id| graph.ty(id).bytes()).sum();
    check(Strategy::OneDevice, 0);
    check(Strategy::Data, 0);
    check(Strategy::FullyShardedData, (p - 1) * parameters as usize);
    // Two all-reduces of 2 (p - 1) x a layer, and the ids to all.
    check(Strategy::Tensor, 2 * 2 * 2 * (p - 1) * x + (p - 1) * ids);
    // Each all-reduce in its two halves, and one more gathering for the output layer.
    check(Strategy::TensorSequence, 2 * 2 * 2 * (p - 1) * x + (p - 1) * x);
    // Queries, and what attention leaves, (p - 1) / p of them; each of a pair of devices the same keys and values.
    check(Strategy::Ulysses, 2 * (2 * (p - 1) * x / p + 2 * 2 * (p - 1) * kv / p));
    // The device with the first and the last token lacks the six between, the next has no need of the last, and so on.
    check(Strategy::Ring, 2 * 2 * (6 + 5 + 4 + 3) * kv / 8);
    // All-reduces of half of x in each of two pairs, and every pair's ids to both.
    check(Strategy::DataTensor { data: 2, tensor: 2 }, 2 * 2 * 2 * x + ids);
}

#[test]
fn inputs_are_held_where_the_caller_says() {
    let check = |strategy: Strategy, inputs: Placement, expected: &str| {
        let graph = model(SMALL);
        let options = Options { inputs, ..Options::default() };
        let choice = fixed(strategy, &graph, &machine(4), &options).unwrap();
        assert_eq!(show(&graph, &choice, "ids"), expected);
    };
    check(Strategy::Data, Placement::Replicated, "home [whole@{0,1,2,3}]");
    check(Strategy::Tensor, Placement::Device(DeviceId(2)), "home [whole@{2}]");
    check(Strategy::OneDevice, Placement::Anywhere, "home [whole@{0}]");
}

#[test]
fn uneven_sizes_are_cut_without_padding() {
    // 28 query heads and 4 key/value heads on 8 devices.
    let s = Sizes { heads: 28, kv: 4, ..SMALL };
    let (graph, choice) = choose(Strategy::Tensor, s, 8);
    let seven = "0:4@{0} 4:8@{1} 8:12@{2} 12:16@{3} 16:19@{4} 19:22@{5} 22:25@{6} 25:28@{7}";
    assert_eq!(show(&graph, &choice, "0.attention"), format!("h[{seven}]"));
    // Device 1 has heads 4 to 7, which read key/value heads 0 and 1.
    let grouped = "0:1@{0,1} 1:2@{1,2,3} 2:3@{3,4,5} 3:4@{5,6,7}";
    assert_eq!(show(&graph, &choice, "0.k"), format!("h[{grouped}]"));
    let data = choose(Strategy::Data, Sizes { batch: 7, ..SMALL }, 3);
    assert_eq!(show(&data.0, &data.1, "0.gate"), "b[0:3@{0} 3:5@{1} 5:7@{2}]");
}

#[test]
fn what_does_not_fit_is_refused_with_sizes() {
    let check = |strategy: Strategy, graph: &Graph, devices: usize, expected: &str| {
        let refusal = fixed(strategy, graph, &machine(devices), &Options::default());
        let Err(Refusal { strategy: named, reason }) = refusal else { panic!("{} is not refused", strategy.name()) };
        assert_eq!(named, strategy);
        assert_eq!(reason, expected);
    };
    let five = model(Sizes { heads: 5, kv: 1, ..SMALL });
    let few_heads = "`0.attention` has 5 heads and there are 8 devices; at most 5 devices would work";
    check(Strategy::Tensor, &five, 8, few_heads);
    check(Strategy::TensorSequence, &five, 8, few_heads);
    check(Strategy::Ulysses, &five, 8, few_heads);
    let few_rows = "the batch (leading axis of `ids`) is 4 and there are 8 devices; a batch of 8 or more, or at \
        most 4 devices, would work";
    check(Strategy::Data, &five, 8, few_rows);
    check(Strategy::FullyShardedData, &five, 8, few_rows);
    let few_tokens = "`ids` has 3 tokens (axis 1) and there are 4 devices; 4 tokens or more, or at most 3 devices, \
        would work";
    let short = model(Sizes { tokens: 3, ..SMALL });
    check(Strategy::Ulysses, &short, 4, few_tokens);
    check(Strategy::TensorSequence, &short, 4, few_tokens);

    check(Strategy::Ring, &short, 4, few_tokens);
    let both = |data, tensor| Strategy::DataTensor { data, tensor };
    let groups = "there are 8 devices; of such strategies data-2-tensor-4, data-4-tensor-2 would use all of them";
    check(both(2, 3), &five, 8, groups);
    check(both(usize::MAX, 2), &five, 8, groups);
    let few_rows = "with each of 6 groups as a device: the batch (leading axis of `ids`) is 4 and there are 6 devices; a \
        batch of 6 or more, or at most 4 devices, would work";
    check(both(6, 1), &five, 6, few_rows);
    let gemm = product(64, 16, 32);
    let no_product = "`words` is not the product of two matrices; grids cut graphs of such products alone";
    check(Strategy::Grid2d, &five, 4, no_product);
    check(Strategy::Grid3d, &product(1, 2, 1), 4, "`c` is too small to be cut in 4 parts");
    check(Strategy::Ring, &gemm, 4, "there is no attention in which keys could be cut");
    let differ = "the leading axis of every input must be the batch, but that of `a` is 64 long and that of `b` 32";
    check(Strategy::Data, &gemm, 4, differ);
    let none = "no product of an activation with a parameter has 4 output features, one for each device";
    check(Strategy::Tensor, &gemm, 4, none);
    check(Strategy::Ulysses, &gemm, 4, "there is no attention in which heads could be cut");
    assert!(fixed(Strategy::OneDevice, &gemm, &machine(4), &Options::default()).is_ok());
    let empty = "the graph has no input with an axis that could be the batch";
    check(Strategy::Data, &Graph::new(), 2, empty);
}
