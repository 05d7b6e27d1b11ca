//! Exchange programs into rows.

use super::pieces::Rows;
use crate::answers::Answer;
use ein_ir::graph::TensorId;
use ein_task::check::Piece;
use ein_task::exchange::{Exchange, Step};
use ein_task::task::{TaskId, Value, Verb};

/// Adds the rows of a program and notes what it delivers.
///
/// A step's result is kept as the row whose value contains it; it is cut out only where something needs it
/// alone: a fold. Moves and pastes take their box out of what contains it, and what a reader on the same device
/// needs of a larger box is never copied.
pub(super) fn lower(rows: &mut Rows<'_>, tensor: TensorId, exchange: &Exchange, checked: &Answer) {
    let mut within: Vec<TaskId> = Vec::with_capacity(checked.pieces.len());
    for (step, piece) in checked.program.steps.iter().zip(&checked.pieces) {
        let task = match step {
            Step::Load { block, device } if piece.finished => {
                rows.read(tensor, *device, &exchange.have.blocks[*block].region)
            }
            Step::Load { block, device } => rows.partial(tensor, *block, *device),
            Step::Cut { piece, .. } => within[*piece],
            Step::Move { piece: from, to } => {
                let region = piece.region.clone();
                let sent = within[*from];
                let (device, form) = (checked.pieces[*from].device, rows.out.task(sent).value.form.clone());
                // The halves are neighbours: no row between them can make one wait for the other.
                let verb = Verb::Send { to: *to };
                let send = rows.push(tensor, device, verb, vec![sent], Value::nothing(region.clone()));
                rows.push(tensor, *to, Verb::Receive { from: device }, vec![send], Value { region, form })
            }
            Step::Fold { pieces } => {
                let parts: Vec<TaskId> = pieces.iter().map(|&p| within[p]).collect();
                fold(rows, tensor, exchange, piece, &parts)
            }
            Step::Paste { pieces, .. } => {
                let parts: Vec<(TaskId, &Piece)> = pieces.iter().map(|&p| (within[p], &checked.pieces[p])).collect();
                paste(rows, tensor, piece, &parts)
            }
        };
        within.push(task);
    }
    for (need, &piece) in exchange.needs.iter().zip(&checked.program.yields) {
        rows.add_finished(tensor, need.device, within[piece]);
    }
}

/// Combines pieces of one region. One piece alone is only finished, which is nothing to do where both forms
/// are the same.
fn fold(rows: &mut Rows<'_>, tensor: TensorId, exchange: &Exchange, piece: &Piece, parts: &[TaskId]) -> TaskId {
    let have = &exchange.have;
    let form = if piece.finished { &have.finished } else { &have.pending };
    if let &[only] = parts
        && have.monoid.is_plain()
        && rows.out.task(only).value.form == *form
    {
        return only;
    }
    let reads: Vec<TaskId> = parts.iter().map(|&p| rows.cut(tensor, p, &piece.region)).collect();
    let value = Value { region: piece.region.clone(), form: form.clone() };
    let verb = Verb::Fold { monoid: have.monoid, finish: piece.finished };
    rows.push(tensor, piece.device, verb, reads, value)
}

/// Puts pieces side by side. Boxes of one value that fill a box are that box of it.
fn paste(rows: &mut Rows<'_>, tensor: TensorId, piece: &Piece, parts: &[(TaskId, &Piece)]) -> TaskId {
    let first = parts[0].0;
    if parts.iter().all(|p| p.0 == first) {
        return first;
    }
    let parts = parts.iter().map(|(task, part)| (*task, part.region.clone())).collect();
    rows.pasted(tensor, piece.device, &piece.region, parts)
}
