//! From a graph to its text.

use std::fmt::Write;

use super::lexer::{is_word, is_word_start};
use super::{COMPARISON, Notation, PRIMARY, RESERVED, SIGN, notation};
use crate::dtype::DType;
use crate::einsum::{Access, Affine, Einsum};
use crate::expr::{Binary, Literal, Row, RowId, Unary};
use crate::graph::{Graph, Node, TensorId};
use crate::kernel::Setting;
use crate::monoid::Monoid;
use crate::op::{InputKind, Op};
use crate::view::View;

/// The text of a graph: one statement a row, then the outputs.
pub fn print(graph: &Graph) -> String {
    let mut text = String::new();
    for node in graph.nodes() {
        text.push_str(&statement(graph, node));
        text.push('\n');
    }
    for (output, id) in graph.outputs() {
        let tensor = &graph.node(*id).name;
        if output == tensor {
            text.push_str(&format!("return {}\n", name(tensor)));
        } else {
            text.push_str(&format!("return {} = {}\n", name(output), name(tensor)));
        }
    }
    text
}

fn statement(graph: &Graph, node: &Node) -> String {
    let operands: Vec<String> = node.inputs.iter().map(|&i| name(&graph.node(i).name)).collect();
    let all = operands.join(", ");
    let this = name(&node.name);
    match &node.op {
        Op::Input(kind) => {
            let kind = match kind {
                InputKind::Parameter => "param",
                InputKind::Input => "input",
                InputKind::State => "state",
            };
            format!("{this}: {kind} {}{}", node.ty.dtype, list(&node.ty.shape))
        }
        Op::Einsum(e) => format!("{this} = {}", einsum(e, &node.inputs, &operands)),
        Op::View(view) => {
            let rest = match view {
                View::Reshape { shape } | View::Broadcast { shape } => list(shape),
                View::Permute { axes } => list(axes),
                View::Roll { shifts } => list(shifts),
                View::Slice { starts, steps, shape } => bracket(starts.iter().zip(steps).zip(shape).map(range)),
                View::Pad { before, after, value } => {
                    let margins = bracket(before.iter().zip(after).map(|(b, a)| format!("{b}:{a}")));
                    format!("{margins} value {}", float(*value))
                }
                View::Concat { axis } => return format!("{this} = concat({all}) axis {axis}"),
            };
            format!("{this} = {} {all} {rest}", view.name())
        }
        Op::Kernel(kernel) => {
            let setting = |(name, value): &(&str, Setting)| match value {
                Setting::Flag => format!(" {name}"),
                Setting::Size(n) => format!(" {name} {n}"),
                Setting::Float(bits) => format!(" {name} {}", float(*bits)),
            };
            let settings: String = kernel.settings().iter().map(setting).collect();
            format!("{this} = {}({all}){settings}", kernel.name())
        }
    }
}

fn range(((start, step), count): ((&usize, &i64), &usize)) -> String {
    let stop = *start as i128 + *step as i128 * *count as i128;
    if *step == 1 { format!("{start}:{stop}") } else { format!("{start}:{stop}:{step}") }
}

fn list(items: &[usize]) -> String {
    bracket(items.iter().map(ToString::to_string))
}

fn bracket(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A name, in quotes where it needs them.
fn name(name: &str) -> String {
    let bare = name.starts_with(is_word_start) && name.chars().all(is_word) && !RESERVED.contains(&name);
    if bare {
        return name.into();
    }
    let mut quoted = String::from('"');
    for c in name.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A float by its bits.
fn float(bits: u64) -> String {
    let value = f64::from_bits(bits);
    if !value.is_nan() {
        format!("{value:?}")
    } else if bits == f64::NAN.to_bits() {
        "nan".into()
    } else {
        format!("bits({bits})")
    }
}

fn einsum(e: &Einsum, inputs: &[TensorId], operands: &[String]) -> String {
    let names: Vec<String> = e.labels.iter().map(|l| name(&l.name)).collect();
    let labels: Vec<String> = names.iter().zip(&e.labels).map(|(n, l)| format!("{n}: {}", l.extent)).collect();
    let (kept, folded) = labels.split_at(e.rank);
    let mut text = format!("einsum {} ({}", e.dtype, kept.join(", "));
    if !folded.is_empty() {
        let gap = if kept.is_empty() { "" } else { " " };
        write!(text, "{gap}| {}", folded.join(", ")).expect("a string takes all");
    }
    let fold = if folded.is_empty() && e.monoid == Monoid::Sum { "map" } else { e.monoid.name() };
    write!(text, ") {fold} ").expect("a string takes all");

    let reads: Vec<String> = operands.iter().zip(&e.accesses).map(|(o, a)| read(o, a, &names)).collect();
    let listed = !numbered_as_read(e, inputs);
    let (lets, value) = Join { e, names: &names, reads: &reads, listed }.print();
    if lets.is_empty() && !listed {
        return text + &value;
    }
    text.push_str("{\n");
    if listed {
        writeln!(text, "  of {};", reads.join(", ")).expect("a string takes all");
    }
    for (row, value) in lets {
        writeln!(text, "  let r{row} = {value};").expect("a string takes all");
    }
    text + "  " + &value + "\n}"
}

/// Whether numbering the operands as they are first read, equal reads being one, gives these operands.
fn numbered_as_read(e: &Einsum, inputs: &[TensorId]) -> bool {
    let mut seen: Vec<(TensorId, &Access)> = Vec::new();
    for (row, _) in e.join.rows() {
        if let Row::Operand(n) = *row {
            let this = (inputs[n], &e.accesses[n]);
            let number = seen.iter().position(|s| *s == this).unwrap_or(seen.len());
            if number == seen.len() {
                seen.push(this);
            }
            if number != n {
                return false;
            }
        }
    }
    seen.len() == inputs.len()
}

fn read(operand: &str, access: &Access, names: &[String]) -> String {
    format!("{operand}{}", bracket(access.axes.iter().map(|a| affine(a, names))))
}

fn affine(index: &Affine, names: &[String]) -> String {
    let mut text = String::new();
    let mut term = |value: i64, label: Option<&str>| {
        let sign = match (text.is_empty(), value < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        text.push_str(sign);
        match (value.unsigned_abs(), label) {
            (1, Some(label)) => text.push_str(label),
            (size, Some(label)) => text.push_str(&format!("{size}*{label}")),
            (size, None) => text.push_str(&size.to_string()),
        }
    };
    for &(label, stride) in &index.terms {
        term(stride, Some(&names[label]));
    }
    if index.offset != 0 || index.terms.is_empty() {
        term(index.offset, None);
    }
    text
}

/// A value that is written where it is used.
struct Inline {
    row: RowId,
    text: String,
    level: u8,
    /// How deep its brackets are nested.
    depth: usize,
}

/// Beyond this a value is named, so that the parser need not nest as deep as an expression may be.
const DEPTH: usize = 24;

struct Join<'g> {
    e: &'g Einsum,
    names: &'g [String],
    reads: &'g [String],
    listed: bool,
}

impl Join<'_> {
    /// The named rows in order, and the value.
    ///
    /// A parser pushes rows in the order of evaluation. So a row can be written inside its reader only if it
    /// has one reader and stands, with what else is inside, right before it: those rows are kept on a stack.
    /// Where that fails, everything on the stack is named, which keeps the order.
    fn print(&self) -> (Vec<(RowId, String)>, String) {
        let rows = self.e.join.rows();
        let mut uses = vec![0usize; rows.len()];
        rows.iter().flat_map(|(r, _)| r.arguments()).for_each(|a| uses[a] += 1);
        let mut lets = Vec::new();
        let mut stack: Vec<Inline> = Vec::new();
        for (this, (row, dtype)) in rows.iter().enumerate() {
            let arguments = row.arguments();
            let mut inside: Vec<RowId> =
                arguments.iter().copied().filter(|a| stack.iter().any(|s| s.row == *a)).collect();
            let on_top = |inside: &[RowId]| {
                let top = stack.len().checked_sub(inside.len()).map(|n| &stack[n..]);
                top.is_some_and(|top| top.iter().map(|s| s.row).eq(inside.iter().copied()))
            };
            let flipped: Vec<RowId> = inside.iter().rev().copied().collect();
            let comparison = matches!(row, Row::Binary(Binary::Lt | Binary::Le, ..));
            let turned = comparison && inside.len() == 2 && !on_top(&inside) && on_top(&flipped);
            if !turned && !on_top(&inside) {
                lets.extend(stack.drain(..).map(|s| (s.row, s.text)));
                inside.clear();
            }
            let top = stack.split_off(stack.len() - inside.len());
            let argument = |a: RowId| match top.iter().find(|s| s.row == a) {
                Some(s) => (s.text.clone(), s.level),
                None => (format!("r{a}"), PRIMARY),
            };
            let (text, level) = self.row(row, *dtype, turned, &argument);
            let depth = top.iter().map(|s| s.depth).max().unwrap_or(0) + 1;
            stack.push(Inline { row: this, text, level, depth });
            if this + 1 < rows.len() && (uses[this] != 1 || depth >= DEPTH) {
                lets.extend(stack.drain(..).map(|s| (s.row, s.text)));
            }
        }
        let value = stack.pop().map(|s| s.text).unwrap_or_default();
        lets.extend(stack.drain(..).map(|s| (s.row, s.text)));
        (lets, value)
    }

    /// One row as text, with its level.
    fn row(&self, row: &Row, dtype: DType, turned: bool, argument: &dyn Fn(RowId) -> (String, u8)) -> (String, u8) {
        let within = |a: RowId, least: u8| {
            let (text, level) = argument(a);
            if level < least { format!("({text})") } else { text }
        };
        let free = |a: RowId| argument(a).0;
        match *row {
            Row::Operand(n) if self.listed => (format!("${n}"), PRIMARY),
            Row::Operand(n) => (self.reads[n].clone(), PRIMARY),
            Row::Const(value) => (self.literal(value, dtype), PRIMARY),
            Row::Index(label) => (format!("index({})", self.names[label]), PRIMARY),
            Row::Unary(Unary::Not, a) => (format!("!{}", within(a, SIGN)), SIGN),
            // The sign of a number would be read as part of it.
            Row::Unary(Unary::Neg, a) if !matches!(self.e.join.rows()[a].0, Row::Const(_)) => {
                (format!("-{}", within(a, SIGN)), SIGN)
            }
            Row::Unary(function, a) => (format!("{}({})", function.name(), free(a)), PRIMARY),
            Row::Binary(function, a, b) => match notation(function) {
                Notation::Call(name) => (format!("{name}({}, {})", free(a), free(b)), PRIMARY),
                Notation::Infix(sign, COMPARISON) if turned => {
                    let sign = if sign == "<" { ">" } else { ">=" };
                    (format!("{} {sign} {}", within(b, COMPARISON + 1), within(a, COMPARISON + 1)), COMPARISON)
                }
                Notation::Infix(sign, level) => {
                    let left = if level == COMPARISON { level + 1 } else { level };
                    (format!("{} {sign} {}", within(a, left), within(b, level + 1)), level)
                }
            },
            Row::Select(c, a, b) => (format!("select({}, {}, {})", free(c), free(a), free(b)), PRIMARY),
            Row::Cast(a) => (format!("cast<{dtype}>({})", free(a)), PRIMARY),
        }
    }

    fn literal(&self, value: Literal, dtype: DType) -> String {
        let (text, default) = match value {
            Literal::Int(n @ (0 | 1)) if dtype == DType::Bool => return (n == 1).to_string(),
            Literal::Int(n) => (n.to_string(), DType::I64),
            Literal::Float(bits) => (float(bits), default_float(self.e.dtype)),
        };
        if dtype == default { text } else { format!("{text}:{dtype}") }
    }
}

/// The type of a float literal without one, in an einsum of this type.
pub(super) fn default_float(einsum: DType) -> DType {
    if einsum.is_float() { einsum } else { DType::F32 }
}
