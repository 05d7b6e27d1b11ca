//! Binomial trees from and to the first device.

use super::{Setting, pieces_of, waves};
use crate::exchange::questions::Kind;
use crate::exchange::writer::{Writer, region, slices};
use ein_task::exchange::{PieceId, Program};

/// The program of the question's tree, if it has one.
pub(super) fn program(setting: &Setting, pieces: usize) -> Option<Program> {
    let count = setting.count();
    let rounds = count.next_power_of_two().ilog2() as usize;
    let mut writer = setting.writer();
    // Of a tree that grows, the distance over which a round passes on.
    let out = |round: usize| 1_usize << (rounds - 1 - round);
    match setting.kind {
        Kind::Broadcast | Kind::AllReduce => {
            let reduce = setting.kind == Kind::AllReduce;
            let rows = slices(setting.rows, pieces);
            let mut at: Vec<Vec<Option<PieceId>>> = vec![vec![None; count]; rows.len()];
            for (c, &rows) in rows.iter().enumerate() {
                let holders = if reduce { count } else { 1 };
                for (d, piece) in at[c].iter_mut().enumerate().take(holders) {
                    *piece = Some(writer.part(d, setting.devices[d], &region(rows, setting.columns)));
                }
            }
            let before = if reduce { rounds } else { 0 };
            waves(before + rounds, rows.len(), |stage, c| {
                let at = &mut at[c];
                if stage < before {
                    let distance = 1 << stage;
                    for j in (distance..count).step_by(2 * distance) {
                        let sent = writer.send(at[j].expect("all hold a partial"), setting.devices[j - distance]);
                        let own = at[j - distance].expect("all hold a partial");
                        at[j - distance] = Some(writer.fold(vec![own, sent]));
                    }
                } else {
                    let distance = out(stage - before);
                    for j in (0..count - distance).step_by(2 * distance) {
                        let sent = writer.send(at[j].expect("it got it before"), setting.devices[j + distance]);
                        at[j + distance] = Some(sent);
                    }
                }
            });
        }
        Kind::Scatter => {
            let columns = pieces_of(setting.columns, pieces);
            let first = columns.iter().map(|&c| writer.part(0, setting.devices[0], &region(setting.rows, c)));
            let mut at: Vec<Vec<PieceId>> = first.map(|p| vec![p; count]).collect();
            waves(rounds, columns.len(), |stage, c| {
                let distance = out(stage);
                for j in (0..count - distance).step_by(2 * distance) {
                    let below = setting.strips(j + distance..(j + 2 * distance).min(count));
                    let cut = writer.cut(at[c][j], &region(below, columns[c]));
                    at[c][j + distance] = writer.send(cut, setting.devices[j + distance]);
                }
            });
        }
        Kind::Gather => {
            let columns = pieces_of(setting.columns, pieces);
            let own = |writer: &mut Writer, c| {
                let part = |d: usize| writer.part(d, setting.devices[d], &region(setting.strip(d), c));
                (0..count).map(part).collect::<Vec<PieceId>>()
            };
            let mut at: Vec<Vec<PieceId>> = columns.iter().map(|&c| own(&mut writer, c)).collect();
            waves(rounds, columns.len(), |stage, c| {
                let distance = 1 << stage;
                for j in (distance..count).step_by(2 * distance) {
                    let sent = writer.send(at[c][j], setting.devices[j - distance]);
                    let both = region(setting.strips(j - distance..(j + distance).min(count)), columns[c]);
                    at[c][j - distance] = writer.paste(vec![at[c][j - distance], sent], &both);
                }
            });
        }
        Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll | Kind::Halo | Kind::Relayout { .. } => return None,
    }
    Some(writer.program())
}
