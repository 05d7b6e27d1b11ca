//! Two levels: inside a group all with all, across groups between devices of the same place.

use super::{Setting, pieces_of, waves};
use crate::exchange::questions::Kind;
use crate::exchange::writer::{region, slices};
use ein_task::exchange::{PieceId, Program};
use ein_task::machine::DeviceId;
use std::collections::BTreeMap;

/// The hierarchical program of the question, if it has one.
pub(super) fn program(setting: &Setting, groups: &[Vec<DeviceId>], pieces: usize) -> Option<Program> {
    let places = groups[0].len();
    let columns = pieces_of(setting.columns, pieces);
    let mut writer = setting.writer();
    let position = |d: DeviceId| setting.devices.iter().position(|&e| e == d).expect("a device that computes");
    let strip = |d: DeviceId| setting.strip(position(d));
    let others = |g: usize| (0..groups.len()).filter(move |&h| h != g);
    // Partners of a place inside its group, each place beginning with the next one.
    let inside = |i: usize| (1..places).map(move |n| (i + n) % places);
    let devices: Vec<(usize, usize, DeviceId)> = groups
        .iter()
        .enumerate()
        .flat_map(|(g, group)| group.iter().enumerate().map(move |(i, &d)| (g, i, d)))
        .collect();
    match setting.kind {
        Kind::AllGather => {
            // Across first, then everything inside.
            let mut at: BTreeMap<(usize, DeviceId), Vec<PieceId>> = BTreeMap::new();
            waves(2, columns.len(), |stage, c| {
                for &(g, i, d) in &devices {
                    if stage == 0 {
                        let own = writer.part(position(d), d, &region(strip(d), columns[c]));
                        at.entry((c, d)).or_default().push(own);
                        for h in others(g) {
                            let sent = writer.send(own, groups[h][i]);
                            at.entry((c, groups[h][i])).or_default().push(sent);
                        }
                    } else {
                        for j in inside(i) {
                            for &piece in &at[&(c, d)] {
                                writer.send(piece, groups[g][j]);
                            }
                        }
                    }
                }
            });
        }
        Kind::ReduceScatter => {
            let mut at: BTreeMap<(usize, DeviceId, usize), PieceId> = BTreeMap::new();
            waves(2, columns.len(), |stage, c| {
                for &(g, i, d) in &devices {
                    if stage == 1 {
                        let mut parts = vec![at[&(c, d, g)]];
                        parts.extend(others(g).map(|h| writer.send(at[&(c, groups[h][i], g)], d)));
                        writer.fold(parts);
                        continue;
                    }
                    for (h, group) in groups.iter().enumerate() {
                        let own = region(strip(group[i]), columns[c]);
                        let mut parts = vec![writer.part(position(d), d, &own)];
                        for j in inside(i) {
                            let part = writer.part(position(groups[g][j]), groups[g][j], &own);
                            parts.push(writer.send(part, d));
                        }
                        at.insert((c, d, h), writer.fold(parts));
                    }
                }
            });
        }
        Kind::AllReduce => {
            let rows = slices(setting.rows, places);
            let mut at: BTreeMap<(usize, DeviceId), PieceId> = BTreeMap::new();
            let mut whole: BTreeMap<(usize, DeviceId), PieceId> = BTreeMap::new();
            waves(3, columns.len(), |stage, c| {
                for &(g, i, d) in &devices {
                    if stage == 0 {
                        let own = region(rows[i], columns[c]);
                        let mut parts = vec![writer.part(position(d), d, &own)];
                        for j in inside(i) {
                            let part = writer.part(position(groups[g][j]), groups[g][j], &own);
                            parts.push(writer.send(part, d));
                        }
                        at.insert((c, d), writer.fold(parts));
                    } else if stage == 1 {
                        let mut parts = vec![at[&(c, d)]];
                        parts.extend(others(g).map(|h| writer.send(at[&(c, groups[h][i])], d)));
                        whole.insert((c, d), writer.fold(parts));
                    } else {
                        for j in inside(i) {
                            writer.send(whole[&(c, d)], groups[g][j]);
                        }
                    }
                }
            });
        }
        Kind::Broadcast => {
            let rows = slices(setting.rows, places);
            let mut at: BTreeMap<(usize, DeviceId), PieceId> = BTreeMap::new();
            waves(3, columns.len(), |stage, c| {
                for (i, &d) in groups[0].iter().enumerate() {
                    if stage == 0 {
                        let part = writer.part(0, groups[0][0], &region(rows[i], columns[c]));
                        at.insert((c, d), writer.send(part, d));
                    } else if stage == 1 {
                        for h in others(0) {
                            at.insert((c, groups[h][i]), writer.send(at[&(c, d)], groups[h][i]));
                        }
                    } else {
                        for group in groups {
                            for j in inside(i).filter(|&j| group[j] != groups[0][0]) {
                                writer.send(at[&(c, group[i])], group[j]);
                            }
                        }
                    }
                }
            });
        }
        Kind::Scatter | Kind::Gather => {
            let out = setting.kind == Kind::Scatter;
            let root = groups[0][0];
            let mut at: BTreeMap<(usize, DeviceId), PieceId> = BTreeMap::new();
            waves(2, columns.len(), |stage, c| {
                for (i, &middle) in groups[0].iter().enumerate() {
                    for group in groups {
                        let own = region(strip(group[i]), columns[c]);
                        let block = if out { 0 } else { position(group[i]) };
                        let (first, last) = if out { (root, group[i]) } else { (group[i], root) };
                        if stage == 0 {
                            let part = writer.part(block, first, &own);
                            at.insert((c, group[i]), writer.send(part, middle));
                        } else {
                            writer.send(at[&(c, group[i])], last);
                        }
                    }
                }
            });
        }
        Kind::AllToAll => {
            if pieces > 1 {
                return None;
            }
            let mut at: Vec<(DeviceId, PieceId)> = Vec::new();
            for &(g, i, d) in &devices {
                for j in std::iter::once(i).chain(inside(i)) {
                    for to in groups {
                        let own = region(strip(d), setting.column(position(to[j])));
                        let part = writer.part(position(d), d, &own);
                        at.push((to[j], writer.send(part, groups[g][j])));
                    }
                }
            }
            for (to, piece) in at {
                writer.send(piece, to);
            }
        }
        Kind::Halo | Kind::Relayout { .. } => return None,
    }
    Some(writer.program())
}
