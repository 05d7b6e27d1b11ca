//! Rings and chains.

use super::{Setting, pieces_of, waves};
use crate::exchange::machines::Wiring;
use crate::exchange::questions::Kind;
use crate::exchange::writer::{Writer, region, slices};
use ein_ir::region::Interval;
use ein_task::exchange::{PieceId, Program};

/// Devices in the order of a ring, and the columns that go round it.
pub(super) struct Lane {
    order: Vec<usize>,
    columns: Interval,
}

/// The rings of a machine: one in the order of the devices or, where some are not linked, one over the widest
/// links; that one both ways; and all rings that share no link, each with its share of the columns.
pub(super) fn lanes(setting: &Setting) -> Vec<(String, Vec<Lane>)> {
    let count = setting.count();
    let columns = setting.columns;
    if Wiring::of(setting.machine) != Wiring::Sparse {
        return vec![("ring".into(), vec![Lane { order: (0..count).collect(), columns }])];
    }
    let rings = rings(setting);
    let Some((first, _)) = rings.first().cloned() else { return Vec::new() };
    let back = |order: &[usize]| order.iter().rev().copied().collect::<Vec<usize>>();
    let halves = slices(columns, 2);
    let twice = [first.clone(), back(&first)].into_iter().zip(halves);
    let twice = twice.map(|(order, columns)| Lane { order, columns }).collect();
    let mut found =
        vec![("ring".to_string(), vec![Lane { order: first, columns }]), ("ring both ways".to_string(), twice)];
    if rings.len() > 1 {
        let total: f64 = rings.iter().map(|r| 2.0 * r.1).sum();
        let (mut all, mut at, mut sum) = (Vec::new(), columns.lo, 0.0);
        for (order, width) in &rings {
            for order in [order.clone(), back(order)] {
                sum += width;
                let hi = columns.lo + (columns.len() as f64 * sum / total).round() as usize;
                all.push(Lane { order, columns: Interval::new(at, hi) });
                at = hi;
            }
        }
        all.retain(|l| !l.columns.is_empty());
        found.push((format!("{} rings", all.len()), all));
    }
    found
}

/// Rings over direct links, the widest first, none using a link of another; each with its narrowest link's width.
fn rings(setting: &Setting) -> Vec<(Vec<usize>, f64)> {
    let (count, machine) = (setting.count(), setting.machine);
    let width = |a: usize, b: usize| {
        let link = machine.link(setting.devices[a], setting.devices[b]);
        link.map_or(0.0, |l| machine.bandwidth(l))
    };
    let mut free: Vec<Vec<f64>> = (0..count).map(|a| (0..count).map(|b| width(a, b)).collect()).collect();
    let mut found = Vec::new();
    loop {
        let mut widths: Vec<f64> = free.iter().flatten().copied().filter(|&w| w > 0.0).collect();
        widths.sort_by(|a, b| b.total_cmp(a));
        widths.dedup();
        let ring = widths.into_iter().find_map(|least| Some((cycle(&free, least)?, least)));
        let Some((order, least)) = ring else { return found };
        for n in 0..count {
            let (a, b) = (order[n], order[(n + 1) % count]);
            free[a][b] -= least;
            free[b][a] -= least;
        }
        found.push((order, least));
    }
}

/// The first cycle through all over links of at least a width.
fn cycle(free: &[Vec<f64>], least: f64) -> Option<Vec<usize>> {
    fn extend(free: &[Vec<f64>], least: f64, path: &mut Vec<usize>) -> bool {
        let last = path[path.len() - 1];
        if path.len() == free.len() {
            return free[last][path[0]] >= least;
        }
        for next in 0..free.len() {
            if free[last][next] >= least && !path.contains(&next) {
                path.push(next);
                if extend(free, least, path) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }
    let mut path = vec![0];
    extend(free, least, &mut path).then_some(path)
}

/// The program of the question's ring or chain, if it has one.
pub(super) fn program(setting: &Setting, lanes: &[Lane], pieces: usize) -> Option<Program> {
    let count = setting.count();
    let mut writer = setting.writer();
    match setting.kind {
        Kind::AllGather => {
            let mut now = start(setting, lanes, pieces, |lane, t, columns| {
                let own = lane.order[t];
                writer.part(own, setting.devices[own], &region(setting.strip(own), columns))
            });
            gather(setting, &mut writer, lanes, &mut now);
        }
        Kind::ReduceScatter | Kind::AllReduce => {
            let all = setting.kind == Kind::AllReduce;
            let equal = slices(setting.rows, count);
            let rows = |lane: &Lane, t: usize| if all { equal[t] } else { setting.strip(lane.order[t]) };
            let mut now = start(setting, lanes, pieces, |lane, t, columns| {
                let own = lane.order[(t + 1) % count];
                writer.part(own, setting.devices[own], &region(rows(lane, t), columns))
            });
            for step in 0..count - 1 {
                each(&mut now, lanes, |lane, t, columns, piece| {
                    let next = lane.order[(t + 2 + step) % count];
                    let sent = writer.send(piece, setting.devices[next]);
                    let own = writer.part(next, setting.devices[next], &region(rows(lane, t), columns));
                    writer.fold(vec![sent, own])
                });
            }
            if all {
                gather(setting, &mut writer, lanes, &mut now);
            }
        }
        Kind::Broadcast => {
            // Pieces of rows, each passed on while the next one comes.
            let pieces = slices(setting.rows, pieces);
            let mut now: Vec<Vec<PieceId>> = Vec::new();
            for lane in lanes {
                let part = |&rows| writer.part(0, setting.devices[0], &region(rows, lane.columns));
                now.push(pieces.iter().map(part).collect());
            }
            waves(count - 1, pieces.len(), |hop, c| {
                for (lane, now) in lanes.iter().zip(&mut now) {
                    let root = lane.order.iter().position(|&p| p == 0).expect("a ring holds all");
                    let next = lane.order[(root + hop + 1) % count];
                    now[c] = writer.send(now[c], setting.devices[next]);
                }
            });
        }
        Kind::Scatter | Kind::Gather | Kind::AllToAll | Kind::Halo | Kind::Relayout { .. } => return None,
    }
    Some(writer.program())
}

/// Of each lane, of each piece with its columns: where every slice is.
type Now = Vec<Vec<(Interval, Vec<PieceId>)>>;

fn start(
    setting: &Setting,
    lanes: &[Lane],
    pieces: usize,
    mut first: impl FnMut(&Lane, usize, Interval) -> PieceId,
) -> Now {
    let count = setting.count();
    let mut of_lane = |lane: &Lane| {
        let of_piece = |columns| (columns, (0..count).map(|t| first(lane, t, columns)).collect());
        pieces_of(lane.columns, pieces).into_iter().map(of_piece).collect()
    };
    lanes.iter().map(&mut of_lane).collect()
}

fn each(now: &mut Now, lanes: &[Lane], mut step: impl FnMut(&Lane, usize, Interval, PieceId) -> PieceId) {
    for (lane, now) in lanes.iter().zip(now) {
        for (columns, slices) in now {
            for (t, piece) in slices.iter_mut().enumerate() {
                *piece = step(lane, t, *columns, *piece);
            }
        }
    }
}

/// From slice t finished at place t to every slice at every place.
fn gather(setting: &Setting, writer: &mut Writer, lanes: &[Lane], now: &mut Now) {
    let count = setting.count();
    for step in 0..count - 1 {
        each(now, lanes, |lane, t, _, piece| writer.send(piece, setting.devices[lane.order[(t + 1 + step) % count]]));
    }
}
