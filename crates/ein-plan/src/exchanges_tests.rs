//! Which needs readers have, and which exchanges a choice implies.

use crate::choice::{Block, Choice, Decomposition, Home};
use crate::exchanges::{ChoiceError, Stage, covered, exchanges};
use crate::needs::{home_relation, operand_needs, produced, source_boxes};
use crate::options::{Options, Placement};
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorId, TensorType};
use ein_ir::op::{InputKind, Op};
use ein_ir::region::{Interval, Region};
use ein_ir::view::View;
use ein_task::exchange::Need;
use ein_task::machine::{DeviceId, DeviceSet, Machine};
use ein_task::relation::Held;

fn machine(n: usize) -> Machine {
    Machine::by_name(&format!("{n}xcpu")).expect("it ships")
}

fn ty(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// `region` cut at `sizes` along `axis`.
fn strips(region: &Region, axis: usize, sizes: &[usize]) -> Vec<Region> {
    let mut at = region.0[axis].lo;
    let strip = |&n: &usize| {
        let mut strip = region.clone();
        strip.0[axis] = Interval::new(at, at + n);
        at += n;
        strip
    };
    sizes.iter().map(strip).collect()
}

fn cut(graph: &Graph, tensor: TensorId, axis: usize, sizes: &[usize]) -> Decomposition {
    let space = graph.spec(tensor).expect("it computes").space();
    let blocks = strips(&space, axis, sizes).into_iter().enumerate();
    let blocks = blocks.map(|(n, region)| Block { region, devices: DeviceSet::one(DeviceId(n as u16)) });
    Decomposition::new(&space, blocks.collect()).expect("strips tile")
}

fn held(graph: &Graph, tensor: TensorId, axis: usize, sizes: &[usize]) -> Home {
    let strips = strips(&graph.ty(tensor).whole(), axis, sizes).into_iter().enumerate();
    Home::At(strips.map(|(n, region)| Held { region, devices: DeviceSet::one(DeviceId(n as u16)) }).collect())
}

fn everywhere(graph: &Graph, tensor: TensorId, devices: usize) -> Home {
    Home::At(vec![Held { region: graph.ty(tensor).whole(), devices: DeviceSet::first(devices) }])
}

#[test]
fn boxes_behind_views() {
    let mut g = Graph::new();
    let x = g.input("x", InputKind::Input, ty(&[4, 6])).unwrap();
    let y = g.input("y", InputKind::Input, ty(&[2, 6])).unwrap();
    let both = g.view("both", View::Concat { axis: 0 }, &[x, y]).unwrap();
    let turned = g.view("turned", View::Permute { axes: vec![1, 0] }, &[both]).unwrap();
    let flat = g.view("flat", View::Reshape { shape: vec![36] }, &[turned]).unwrap();
    let check = |tensor, region: &[(usize, usize)], expected: &str| {
        let boxes = source_boxes(&g, tensor, &Region::of(region));
        let text: Vec<String> = boxes.iter().map(|(t, r)| format!("{t}{r}")).collect();
        assert_eq!(text.join(" "), expected);
    };
    check(x, &[(1, 2), (0, 6)], "t0[1:2,0:6]");
    check(both, &[(3, 6), (2, 4)], "t0[3:4,2:4] t1[0:2,2:4]");
    check(turned, &[(2, 4), (0, 4)], "t0[0:4,2:4]");
    check(flat, &[(3, 8)], "t0[0:2,1:2] t0[3:4,0:1] t1[0:2,0:1]");
    check(flat, &[(3, 3)], "");
}

/// `h = x w`, `y = h + h`, both of `[6, 4]`.
fn pair() -> (Graph, [TensorId; 4]) {
    let mut g = Graph::new();
    let x = g.input("x", InputKind::Input, ty(&[6, 8])).unwrap();
    let w = g.input("w", InputKind::Parameter, ty(&[8, 4])).unwrap();
    let h = g.contraction("h", "ik,kj->ij", &[x, w]).unwrap();
    let y = g.contraction("y", "ij,ij->ij", &[h, h]).unwrap();
    g.output("y", y).unwrap();
    (g, [x, w, h, y])
}

#[test]
fn needs_and_relations() {
    let (g, [x, w, h, _]) = pair();
    let by = |axis, sizes: &[usize]| {
        let d = cut(&g, h, axis, sizes);
        let needs = operand_needs(&g, h, &d);
        let text =
            |t| needs[&t].iter().map(|n: &Need| format!("{}{}", n.device, n.region)).collect::<Vec<_>>().join(" ");
        (text(x), text(w), produced(&g, h, &d, false))
    };
    let (a, b, rows) = by(0, &[4, 2]);
    assert_eq!((a.as_str(), b.as_str()), ("d0[0:4,0:8] d1[4:6,0:8]", "d0[0:8,0:4] d1[0:8,0:4]"));
    assert_eq!((rows.to_string().as_str(), rows.is_complete()), ("[0:4,0:4]@{0} [4:6,0:4]@{1}", true));
    let (a, b, partial) = by(2, &[3, 5]);
    assert_eq!((a.as_str(), b.as_str()), ("d0[0:6,0:3] d1[0:6,3:8]", "d0[0:3,0:4] d1[3:8,0:4]"));
    assert_eq!((partial.to_string().as_str(), partial.is_complete()), ("[0:6,0:4]@{0} [0:6,0:4]@{1}", false));
}

#[test]
fn coverage() {
    let (g, [x, ..]) = pair();
    let Home::At(blocks) = held(&g, x, 0, &[4, 2]) else { unreachable!("held somewhere") };
    let have = home_relation(&g, x, &blocks);
    let need = |device, lo, hi| Need { device: DeviceId(device), region: Region::of(&[(lo, hi), (0, 8)]) };
    let check = |delivered: &[&[Need]], needs: &[Need], expected| {
        assert_eq!(covered(&have, delivered, needs), expected, "{needs:?}");
    };
    check(&[], &[], true);
    check(&[], &[need(0, 1, 3), need(1, 4, 6)], true);
    check(&[], &[need(0, 3, 5)], false);
    check(&[&[need(0, 3, 6)]], &[need(0, 3, 5)], true);
    // Two boxes side by side do not make one.
    check(&[&[need(0, 4, 6)]], &[need(0, 0, 6)], false);
    check(&[&[need(1, 0, 6)]], &[need(0, 0, 6)], false);
}

/// The exchanges of a choice for [`pair`] as lines.
fn planned(
    h: (usize, &[usize]),
    y: (usize, &[usize]),
    home: impl Fn(&Graph, TensorId) -> Home,
    outputs: Placement,
) -> String {
    let (g, [tx, tw, th, ty]) = pair();
    let mut choice = Choice::default();
    choice.decompositions.insert(th, cut(&g, th, h.0, h.1));
    choice.decompositions.insert(ty, cut(&g, ty, y.0, y.1));
    choice.homes.insert(tx, everywhere(&g, tx, 2));
    choice.homes.insert(tw, everywhere(&g, tw, 2));
    choice.homes.insert(th, home(&g, th));
    choice.homes.insert(ty, Home::AsProduced);
    let options = Options { outputs, ..Options::default() };
    match exchanges(&g, &choice, &options, &machine(2)) {
        Err(e) => e.to_string(),
        Ok(list) => {
            let line = |p: &crate::exchanges::Planned| {
                let needs: Vec<String> = p.exchange.needs.iter().map(|n| format!("{}{}", n.device, n.region)).collect();
                let stage = if p.stage == Stage::ToHome { "home" } else { "out" };
                let readers: Vec<String> = p.readers.iter().map(ToString::to_string).collect();
                format!("{} {stage} {} -> {} for {}", p.tensor, p.exchange.have, needs.join(" "), readers.join(" "))
            };
            list.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

#[test]
fn implied_exchanges() {
    let same = |_: &Graph, _| Home::AsProduced;
    let rows = |g: &Graph, t| held(g, t, 0, &[3, 3]);
    // Rows stay where they are, whatever their home is called.
    assert_eq!(planned((0, &[3, 3]), (0, &[3, 3]), same, Placement::Anywhere), "");
    assert_eq!(planned((0, &[3, 3]), (0, &[3, 3]), rows, Placement::Anywhere), "");
    // Partials go home folded, or are folded by the hand-out.
    let partials = "[0:6,0:4]@{0} [0:6,0:4]@{1} -> d0[0:3,0:4] d1[3:6,0:4]";
    assert_eq!(planned((2, &[4, 4]), (0, &[3, 3]), rows, Placement::Anywhere), format!("t2 home {partials} for "));
    assert_eq!(planned((2, &[4, 4]), (0, &[3, 3]), same, Placement::Anywhere), format!("t2 out {partials} for t3"));
    // Other rows than at home.
    assert_eq!(
        planned((0, &[3, 3]), (0, &[2, 4]), rows, Placement::Anywhere),
        "t2 out [0:3,0:4]@{0} [3:6,0:4]@{1} -> d0[0:2,0:4] d1[2:6,0:4] for t3"
    );
    // An output that must be somewhere; one that is left as partials may only if it must.
    assert_eq!(
        planned((0, &[3, 3]), (0, &[3, 3]), same, Placement::Device(DeviceId(1))),
        "t3 out [0:3,0:4]@{0} [3:6,0:4]@{1} -> d1[0:6,0:4] for "
    );
}

#[test]
fn lists_share_and_cover() {
    let mut g = Graph::new();
    let x = g.input("x", InputKind::Input, ty(&[8, 2])).unwrap();
    let mut choice = Choice::default();
    choice.homes.insert(x, held(&g, x, 0, &[8]));
    for (name, sizes) in [("a", [4, 4]), ("b", [4, 4]), ("c", [2, 6]), ("d", [8, 0])] {
        let t = g.contraction(name, "ij->ij", &[x]).unwrap();
        choice.decompositions.insert(t, cut(&g, t, 0, &sizes));
        choice.homes.insert(t, Home::AsProduced);
    }
    let list = exchanges(&g, &choice, &Options::default(), &machine(2)).unwrap();
    // All lists have 8 rows; that of `c` has a box on d1 that holds the others', and comes later by value than
    // that of `d`, which is at home.
    let text: Vec<String> = list
        .iter()
        .map(|p| {
            format!("{:?} {:?}", p.exchange.needs.iter().map(|n| n.region.to_string()).collect::<Vec<_>>(), p.readers)
        })
        .collect();
    assert_eq!(text, [r#"["[0:2,0:2]", "[2:8,0:2]"] [TensorId(1), TensorId(2), TensorId(3)]"#,]);
}

#[test]
fn choices_that_do_not_fit() {
    let (g, [tx, tw, th, ty]) = pair();
    let good = || {
        let mut choice = Choice::default();
        for t in [tx, tw] {
            choice.homes.insert(t, everywhere(&g, t, 2));
        }
        for t in [th, ty] {
            choice.decompositions.insert(t, cut(&g, t, 0, &[3, 3]));
            choice.homes.insert(t, Home::AsProduced);
        }
        choice
    };
    let check = |spoil: &dyn Fn(&mut Choice), expected: &str| {
        let mut choice = good();
        spoil(&mut choice);
        let error = exchanges(&g, &choice, &Options::default(), &machine(2)).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    };
    assert!(exchanges(&g, &good(), &Options::default(), &machine(2)).is_ok());
    check(&|c| drop(c.decompositions.remove(&th)), "`h` has no decomposition; every row that computes needs one");
    check(&|c| drop(c.homes.remove(&th)), "`h` has no home; every input and every row that computes needs one");
    check(
        &|c| drop(c.homes.insert(tx, Home::AsProduced)),
        "input `x` has no producer: say at which devices its blocks are held",
    );
    check(
        &|c| drop(c.homes.insert(th, held(&g, th, 0, &[3, 2]))),
        "the home of `h` does not fill [0:6,0:4] with disjoint blocks, each with a holder",
    );
    check(
        &|c| drop(c.decompositions.insert(ty, c.decompositions[&th].clone())),
        "the blocks of `y` do not tile its label space [0:6,0:4]",
    );
    check(
        &|c| drop(c.decompositions.insert(ty, cut(&g, ty, 0, &[2, 2, 2]))),
        "`y` uses device d2, but the machine has 2 devices",
    );
    let mut g2 = Graph::new();
    let x = g2.input("x", InputKind::Input, crate::exchanges_tests::ty(&[6, 8])).unwrap();
    let h = g2.contraction("h", "ik->i", &[x]).unwrap();
    let shown = g2.view("shown", View::Reshape { shape: vec![2, 3] }, &[h]).unwrap();
    g2.output("shown", shown).unwrap();
    assert!(matches!(g2.node(shown).op, Op::View(_)));
    let mut choice = Choice::default();
    choice.homes.insert(x, everywhere(&g2, x, 2));
    choice.homes.insert(h, Home::AsProduced);
    choice.decompositions.insert(h, cut(&g2, h, 1, &[4, 4]));
    let check = |outputs| exchanges(&g2, &choice, &Options { outputs, ..Options::default() }, &machine(2));
    assert_eq!(check(Placement::Anywhere), Err(ChoiceError::PendingOutput { name: "h".into() }));
    assert_eq!(check(Placement::Replicated).map(|l| l.len()), Ok(1));
}
