//! Recursive halving and doubling: partners at distances that are powers of two.

use super::{Setting, pieces_of};
use crate::exchange::questions::Kind;
use crate::exchange::writer::{Writer, region};
use ein_ir::region::Interval;
use ein_task::exchange::{PieceId, Program};

/// The program of the question by partners, if it has one and the number of devices is a power of two.
pub(super) fn program(setting: &Setting, pieces: usize) -> Option<Program> {
    let count = setting.count();
    if !count.is_power_of_two() || count < 2 {
        return None;
    }
    let columns = pieces_of(setting.columns, pieces);
    let mut writer = setting.writer();
    match setting.kind {
        Kind::AllGather => {
            let mut at: Vec<Vec<PieceId>> = Vec::new();
            for &c in &columns {
                let own = |d: usize| writer.part(d, setting.devices[d], &region(setting.strip(d), c));
                at.push((0..count).map(own).collect());
            }
            doubling(setting, &mut writer, &columns, &mut at);
        }
        Kind::ReduceScatter => {
            halving(setting, &mut writer, &columns);
        }
        Kind::AllReduce => {
            let mut at = halving(setting, &mut writer, &columns);
            doubling(setting, &mut writer, &columns, &mut at);
        }
        Kind::AllToAll => {
            if pieces > 1 {
                return None;
            }
            store_and_forward(setting, &mut writer);
        }
        Kind::Broadcast | Kind::Scatter | Kind::Gather | Kind::Halo | Kind::Relayout { .. } => return None,
    }
    Some(writer.program())
}

/// From the strip of each to the whole everywhere.
fn doubling(setting: &Setting, writer: &mut Writer, columns: &[Interval], at: &mut [Vec<PieceId>]) {
    let count = setting.count();
    let mut distance = 1;
    while distance < count {
        for (at, &columns) in at.iter_mut().zip(columns) {
            let sent: Vec<PieceId> = (0..count).map(|j| writer.send(at[j], setting.devices[j ^ distance])).collect();
            for j in 0..count {
                let first = j & !(2 * distance - 1);
                let both = region(setting.strips(first..first + 2 * distance), columns);
                at[j] = writer.paste(vec![at[j], sent[j ^ distance]], &both);
            }
        }
        distance *= 2;
    }
}

/// From a partial everywhere to the strip of each.
fn halving(setting: &Setting, writer: &mut Writer, columns: &[Interval]) -> Vec<Vec<PieceId>> {
    let count = setting.count();
    let mut at: Vec<Vec<PieceId>> = Vec::new();
    for &c in columns {
        at.push((0..count).map(|d| writer.part(d, setting.devices[d], &region(setting.rows, c))).collect());
    }
    let mut distance = count / 2;
    while distance > 0 {
        for (at, &columns) in at.iter_mut().zip(columns) {
            let half = |j: usize| {
                let first = j & !(distance - 1);
                region(setting.strips(first..first + distance), columns)
            };
            let mut sent = Vec::new();
            for (j, &piece) in at.iter().enumerate() {
                let theirs = writer.cut(piece, &half(j ^ distance));
                sent.push(writer.send(theirs, setting.devices[j ^ distance]));
            }
            for j in 0..count {
                let own = writer.cut(at[j], &half(j));
                at[j] = writer.fold(vec![own, sent[j ^ distance]]);
            }
        }
        distance /= 2;
    }
    at
}

/// Every piece goes along the bits in which its destination differs from where it is.
fn store_and_forward(setting: &Setting, writer: &mut Writer) {
    let count = setting.count();
    let mut at: Vec<(usize, usize, PieceId)> = Vec::new();
    for from in 0..count {
        for to in (0..count).filter(|&to| to != from) {
            let part = writer.part(from, setting.devices[from], &region(setting.strip(from), setting.column(to)));
            at.push((from, to, part));
        }
    }
    let mut distance = 1;
    while distance < count {
        for (place, to, piece) in &mut at {
            if (*place ^ *to) & distance != 0 {
                *place ^= distance;
                *piece = writer.send(*piece, setting.devices[*place]);
            }
        }
        distance *= 2;
    }
}
