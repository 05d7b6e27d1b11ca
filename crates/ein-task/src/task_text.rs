//! The text form of task graphs, one row a line; what is printed can be read back.
//!
//! ```text
//! devices 2
//! external 0 parameter "w" f32[4,8]
//! op 0 "y"
//! output 0 "y" f32[2,8]
//! label 0 "w"
//! arenas 128 128
//! t0 d0 feed x0 -> [0:4,0:4] f32 slot 0+64 of 0
//! t2 d0 kernel op0 [0:2,0:4,0:4] finish operands 1 0 reads t1 t0 after t1 -> [0:2,0:4] f32 slot 64+64 of 1
//! ```
//!
//! Operations are printed by name: their definitions belong to the graph, and [`parse`] takes them from a table.

use crate::machine::{DeviceId, DeviceSet};
use crate::task::{External, OpRow, Slot, Source, Stage, Task, TaskGraph, TaskId, Value, Verb};
use crate::units::Bytes;
use ein_ir::dtype::DType;
use ein_ir::graph::TensorType;
use ein_ir::monoid::{Field, Form, Monoid};
use ein_ir::op::InputKind;
use ein_ir::region::{Interval, Region};
use std::fmt::Write;

/// Names that a field can have.
const FIELDS: [&str; 10] = ["value", "max", "sum", "acc", "count", "mean", "m2", "index", "scale", "shift"];

/// A text that is not a task graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {found} where {expected} belongs")]
pub struct TaskTextError {
    /// Line, from 1.
    pub line: usize,
    /// What stands there.
    pub found: String,
    /// What would work.
    pub expected: String,
}

/// The text of a task graph.
pub fn print(graph: &TaskGraph) -> String {
    let mut text = format!("devices {}\n", graph.devices);
    for (n, e) in graph.externals.iter().enumerate() {
        let _ = writeln!(text, "external {n} {} {} {}", kind_name(e.kind), quoted(&e.name), type_text(&e.ty));
    }
    for (n, op) in graph.ops.iter().enumerate() {
        let _ = writeln!(text, "op {n} {}", quoted(&op.name));
    }
    for (n, (name, ty)) in graph.outputs.iter().enumerate() {
        let _ = writeln!(text, "output {n} {} {}", quoted(name), type_text(ty));
    }
    for (n, name) in graph.labels.iter().enumerate() {
        let _ = writeln!(text, "label {n} {}", quoted(name));
    }
    if !graph.arenas.is_empty() {
        let _ = writeln!(text, "arenas{}", list(graph.arenas.iter().map(|a| a.0)));
    }
    for (id, task) in graph.rows() {
        let _ = writeln!(text, "{id} {}", task_text(task));
    }
    text
}

/// The text of one row, without its number.
pub fn task_text(task: &Task) -> String {
    let mut text = format!("{} {}", task.device, task.verb.name());
    let _ = match &task.verb {
        Verb::Feed { external } => write!(text, " x{external}"),
        Verb::Kernel { op, labels, finish, operands } => {
            let finish = if *finish { "finish" } else { "pending" };
            let operands = operands.iter().map(|o| o.map_or_else(|| "-".into(), |o| o.to_string()));
            write!(text, " op{op} {labels} {finish} operands{}", list(operands))
        }
        Verb::Fused { stages } => {
            for stage in stages {
                let finish = if stage.finish { "finish" } else { "pending" };
                let operands = stage.operands.iter().map(|o| match o {
                    None => "-".into(),
                    Some(Source::Read(n)) => n.to_string(),
                    Some(Source::Previous) => "it".into(),
                });
                let _ = write!(text, " op{} {} {finish} operands{}", stage.op, stage.labels, list(operands));
            }
            Ok(())
        }
        Verb::View { op, inputs } => write!(text, " op{op} inputs{}", list(inputs)),
        Verb::Send { to } => write!(text, " {to}"),
        Verb::Receive { from } => write!(text, " {from}"),
        Verb::Fold { monoid, finish } => {
            write!(text, " {monoid} {}", if *finish { "finish" } else { "pending" })
        }
        Verb::Output { output } => write!(text, " o{output}"),
        Verb::Cut | Verb::Paste => Ok(()),
    };
    for (word, ids) in [("reads", &task.reads), ("after", &task.after)] {
        if !ids.is_empty() {
            let _ = write!(text, " {word}{}", list(ids));
        }
    }
    let _ = write!(text, " -> {} {}", task.value.region, form_text(&task.value));
    if let Some(within) = &task.within {
        let _ = write!(text, " within {within}");
    }
    if task.slot != Slot::default() {
        let _ = write!(text, " slot {}+{}", task.slot.offset, task.slot.bytes);
    }
    let _ = write!(text, " of {}", task.label);
    text
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let words: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    if words.is_empty() { String::new() } else { format!(" {}", words.join(" ")) }
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

fn kind_name(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Parameter => "parameter",
        InputKind::Input => "input",
        InputKind::State => "state",
    }
}

fn type_text(ty: &TensorType) -> String {
    let extents: Vec<String> = ty.shape.iter().map(ToString::to_string).collect();
    format!("{}[{}]", ty.dtype, extents.join(","))
}

/// `nothing`, the type of a finished value, or every field with its axes.
fn form_text(value: &Value) -> String {
    if value.is_nothing() {
        return "nothing".into();
    }
    let fields = &value.form.fields;
    if value.form == Form::finished(fields[0].dtype, value.region.rank()) {
        return fields[0].dtype.to_string();
    }
    let field = |f: &Field| {
        let axes: Vec<String> = f.axes.iter().map(ToString::to_string).collect();
        format!("{}:{}({})", f.name, f.dtype, axes.join(","))
    };
    format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(";"))
}

/// The task graph of a text. `ops` are the operations that it may name.
pub fn parse(text: &str, ops: &[OpRow]) -> Result<TaskGraph, TaskTextError> {
    let mut graph = TaskGraph::default();
    for (n, line) in text.lines().enumerate() {
        let mut words = Words { line: n + 1, rest: words(line, n + 1)?, at: 0 };
        if words.rest.is_empty() {
            continue;
        }
        parse_line(&mut graph, &mut words, ops)?;
        if let Some(extra) = words.peek() {
            return Err(words.error(extra, "the end of the line"));
        }
    }
    Ok(graph)
}

fn parse_line(graph: &mut TaskGraph, words: &mut Words, ops: &[OpRow]) -> Result<(), TaskTextError> {
    let first = words.next("a row")?;
    match first.as_str() {
        "devices" => {
            let devices: usize = words.number("")?;
            if devices > DeviceSet::MAX {
                return Err(words.error(&devices.to_string(), "at most 128 devices"));
            }
            graph.devices = devices;
        }
        "external" => {
            words.position(graph.externals.len())?;
            let kind = match words.next("a kind")?.as_str() {
                "parameter" => InputKind::Parameter,
                "input" => InputKind::Input,
                "state" => InputKind::State,
                other => return Err(words.error(other, "parameter, input or state")),
            };
            let name = words.name()?;
            let ty = words.ty()?;
            graph.externals.push(External { name, kind, ty });
        }
        "op" => {
            words.position(graph.ops.len())?;
            let name = words.name()?;
            match ops.iter().find(|o| o.name == name) {
                Some(op) => graph.ops.push(op.clone()),
                None => return Err(words.error(&name, "the name of an operation of the graph")),
            }
        }
        "output" => {
            words.position(graph.outputs.len())?;
            let name = words.name()?;
            let ty = words.ty()?;
            graph.outputs.push((name, ty));
        }
        "label" => {
            words.position(graph.labels.len())?;
            let name = words.name()?;
            graph.labels.push(name);
        }
        "arenas" => {
            while words.peek().is_some() {
                let bytes = words.number("")?;
                graph.arenas.push(Bytes(bytes));
            }
        }
        id if id == TaskId(graph.tasks.len() as u32).to_string() => {
            let task = parse_task(words)?;
            graph.tasks.push(task);
        }
        other => {
            let next = format!("a header or t{}", graph.tasks.len());
            return Err(words.error(other, &next));
        }
    }
    Ok(())
}

fn parse_task(words: &mut Words) -> Result<Task, TaskTextError> {
    let device = DeviceId(words.number("d")?);
    let verb = match words.next("a verb")?.as_str() {
        "feed" => Verb::Feed { external: words.number("x")? },
        "kernel" => {
            let op = words.number("op")?;
            let labels = words.region()?;
            let finish = words.finish()?;
            words.expect("operands")?;
            let mut operands = Vec::new();
            while let Some(word) = words.peek().filter(|w| *w == "-" || w.starts_with(|c: char| c.is_ascii_digit())) {
                operands.push(if word == "-" {
                    words.at += 1;
                    None
                } else {
                    Some(words.number("")?)
                });
            }
            Verb::Kernel { op, labels, finish, operands }
        }
        "fused" => {
            let mut stages = Vec::new();
            while words.peek().is_some_and(|w| w.starts_with("op")) {
                let (op, labels, finish) = (words.number("op")?, words.region()?, words.finish()?);
                words.expect("operands")?;
                let mut operands = Vec::new();
                let named = |w: &&str| *w == "-" || *w == "it" || w.starts_with(|c: char| c.is_ascii_digit());
                while let Some(word) = words.peek().filter(named).map(str::to_owned) {
                    operands.push(match word.as_str() {
                        "-" | "it" => {
                            words.at += 1;
                            (word == "it").then_some(Source::Previous)
                        }
                        _ => Some(Source::Read(words.number("")?)),
                    });
                }
                stages.push(Stage { op, labels, finish, operands });
            }
            Verb::Fused { stages }
        }
        "view" => {
            let op = words.number("op")?;
            words.expect("inputs")?;
            Verb::View { op, inputs: words.numbers("")? }
        }
        "cut" => Verb::Cut,
        "send" => Verb::Send { to: DeviceId(words.number("d")?) },
        "receive" => Verb::Receive { from: DeviceId(words.number("d")?) },
        "fold" => {
            let name = words.next("a monoid")?;
            let monoid = Monoid::parse(&name).ok_or_else(|| words.error(&name, "a monoid"))?;
            Verb::Fold { monoid, finish: words.finish()? }
        }
        "paste" => Verb::Paste,
        "output" => Verb::Output { output: words.number("o")? },
        other => return Err(words.error(other, "a verb")),
    };
    let mut ids = |word: &str| -> Result<Vec<TaskId>, TaskTextError> {
        if words.peek() != Some(word) {
            return Ok(Vec::new());
        }
        words.at += 1;
        Ok(words.numbers("t")?.into_iter().map(TaskId).collect())
    };
    let reads = ids("reads")?;
    let after = ids("after")?;
    words.expect("->")?;
    let region = words.region()?;
    let form = words.form(region.rank())?;
    let mut within = None;
    if words.peek() == Some("within") {
        words.at += 1;
        within = Some(words.region()?);
    }
    let mut slot = Slot::default();
    if words.peek() == Some("slot") {
        words.at += 1;
        let word = words.next("a slot")?;
        let parts = word.split_once('+').and_then(|(o, b)| Some((o.parse().ok()?, b.parse().ok()?)));
        let (offset, bytes) = parts.ok_or_else(|| words.error(&word, "offset+bytes"))?;
        slot = Slot { offset, bytes };
    }
    words.expect("of")?;
    let label = words.number("")?;
    Ok(Task { device, verb, reads, after, value: Value { region, form }, within, slot, label })
}

/// The words of a line; a quoted name is one.
fn words(line: &str, number: usize) -> Result<Vec<String>, TaskTextError> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = if rest.starts_with('"') {
            let mut escaped = false;
            let close = rest.char_indices().skip(1).find(|&(_, c)| {
                let found = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                found
            });
            let open = || TaskTextError { line: number, found: rest.into(), expected: "a closed name".into() };
            close.ok_or_else(open)?.0 + 1
        } else {
            rest.find(char::is_whitespace).unwrap_or(rest.len())
        };
        words.push(rest[..end].to_string());
        rest = rest[end..].trim_start();
    }
    Ok(words)
}

/// What is left of a line.
struct Words {
    line: usize,
    rest: Vec<String>,
    at: usize,
}

impl Words {
    fn error(&self, found: &str, expected: &str) -> TaskTextError {
        TaskTextError { line: self.line, found: format!("`{found}`"), expected: expected.into() }
    }

    fn peek(&self) -> Option<&str> {
        self.rest.get(self.at).map(String::as_str)
    }

    fn next(&mut self, expected: &str) -> Result<String, TaskTextError> {
        let word = self.rest.get(self.at).cloned().ok_or_else(|| TaskTextError {
            line: self.line,
            found: "the end".into(),
            expected: expected.into(),
        })?;
        self.at += 1;
        Ok(word)
    }

    fn expect(&mut self, word: &str) -> Result<(), TaskTextError> {
        let found = self.next(word)?;
        if found == word { Ok(()) } else { Err(self.error(&found, word)) }
    }

    fn number<T: std::str::FromStr>(&mut self, prefix: &str) -> Result<T, TaskTextError> {
        let expected = if prefix.is_empty() { "a number".to_string() } else { format!("{prefix} and a number") };
        let word = self.next(&expected)?;
        word.strip_prefix(prefix).and_then(|n| n.parse().ok()).ok_or_else(|| self.error(&word, &expected))
    }

    /// Numbers up to the first word that is none.
    fn numbers<T: std::str::FromStr>(&mut self, prefix: &str) -> Result<Vec<T>, TaskTextError> {
        let is_one = |w: &str| w.strip_prefix(prefix).is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
        let mut found = Vec::new();
        while self.peek().is_some_and(is_one) {
            found.push(self.number(prefix)?);
        }
        Ok(found)
    }

    fn position(&mut self, expected: usize) -> Result<(), TaskTextError> {
        let found: usize = self.number("")?;
        if found == expected { Ok(()) } else { Err(self.error(&found.to_string(), &expected.to_string())) }
    }

    fn name(&mut self) -> Result<String, TaskTextError> {
        let word = self.next("a quoted name")?;
        serde_json::from_str(&word).map_err(|_| self.error(&word, "a quoted name"))
    }

    fn finish(&mut self) -> Result<bool, TaskTextError> {
        match self.next("finish or pending")?.as_str() {
            "finish" => Ok(true),
            "pending" => Ok(false),
            other => Err(self.error(other, "finish or pending")),
        }
    }

    fn ty(&mut self) -> Result<TensorType, TaskTextError> {
        let word = self.next("a type")?;
        parse_type(&word).ok_or_else(|| self.error(&word, "a type such as f32[2,3]"))
    }

    fn region(&mut self) -> Result<Region, TaskTextError> {
        let word = self.next("a region")?;
        parse_region(&word).ok_or_else(|| self.error(&word, "a region such as [0:4,2:8]"))
    }

    fn form(&mut self, rank: usize) -> Result<Form, TaskTextError> {
        let word = self.next("a form")?;
        parse_form(&word, rank).ok_or_else(|| self.error(&word, "nothing, a type, or fields"))
    }
}

fn numbers(text: &str) -> Option<Vec<usize>> {
    if text.is_empty() { Some(Vec::new()) } else { text.split(',').map(|n| n.parse().ok()).collect() }
}

fn parse_type(word: &str) -> Option<TensorType> {
    let (dtype, shape) = word.strip_suffix(']')?.split_once('[')?;
    let shape = numbers(shape)?;
    addressable(shape.iter().copied())?;
    Some(TensorType::new(DType::parse(dtype)?, shape))
}

/// Nothing if a box up to these indices has more elements than memory has bytes.
fn addressable(mut ends: impl Iterator<Item = usize>) -> Option<usize> {
    ends.try_fold(1usize, |volume, end| volume.checked_mul(end.max(1)).filter(|v| *v < 1 << 48))
}

fn parse_region(word: &str) -> Option<Region> {
    let inner = word.strip_prefix('[')?.strip_suffix(']')?;
    if inner.is_empty() {
        return Some(Region(Vec::new()));
    }
    let interval = |text: &str| {
        let (lo, hi) = text.split_once(':')?;
        Some(Interval::new(lo.parse().ok()?, hi.parse().ok()?))
    };
    let region = Region(inner.split(',').map(interval).collect::<Option<Vec<_>>>()?);
    addressable(region.0.iter().map(|i| i.hi))?;
    Some(region)
}

fn parse_form(word: &str, rank: usize) -> Option<Form> {
    if word == "nothing" {
        return Some(Form { fields: Vec::new() });
    }
    if let Some(dtype) = DType::parse(word) {
        return Some(Form::finished(dtype, rank));
    }
    let inner = word.strip_prefix('{')?.strip_suffix('}')?;
    let field = |text: &str| {
        let (name, rest) = text.split_once(':')?;
        let (dtype, axes) = rest.strip_suffix(')')?.split_once('(')?;
        let name = FIELDS.into_iter().find(|f| *f == name)?;
        Some(Field { name, axes: numbers(axes)?, dtype: DType::parse(dtype)? })
    };
    Some(Form { fields: inner.split(';').map(field).collect::<Option<Vec<_>>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ein_ir::graph::Graph;

    fn ops() -> Vec<OpRow> {
        let mut graph = Graph::new();
        let ty = TensorType::new(DType::F32, [2, 4]);
        let x = graph.input("x", InputKind::Input, ty.clone()).expect("a new name");
        let y = graph.contraction("y \"1\"", "ik,jk->ij", &[x, x]).expect("it fits");
        vec![OpRow {
            name: "y \"1\"".into(),
            op: graph.node(y).op.clone(),
            operands: vec![ty.clone(), ty],
            spec: graph.spec(y),
            result: graph.ty(y).clone(),
        }]
    }

    #[test]
    fn round_trip() {
        let text = r#"devices 3
external 0 parameter "x" f32[2,4]
external 1 input "scalar" i64[]
external 2 state "s" bool[0]
op 0 "y \"1\""
output 0 "y \"1\"" f32[2,2]
label 0 "x"
label 1 "y \"1\""
arenas 192 0 128
t0 d0 feed x0 -> [0:2,0:4] f32 slot 0+64 of 0
t1 d0 kernel op0 [0:2,0:2,0:2] pending operands 0 - 0 reads t0 -> [0:2,0:2] f32 slot 64+64 of 1
t2 d0 cut reads t1 after t0 -> [0:1,0:2] f32 slot 128+64 of 1
t3 d0 send d2 reads t2 -> [0:1,0:2] nothing of 1
t4 d2 receive d0 reads t3 -> [0:1,0:2] f32 slot 0+64 of 1
t5 d2 fold attend pending reads t4 t4 -> [0:1,0:2] {max:f32(0);sum:f32(0);acc:bf16(0,1)} slot 64+64 of 1
t6 d2 fold sum finish reads t4 -> [0:1,0:2] f32 of 1
t7 d2 paste reads t4 t6 -> [0:1,0:4] f32 of 1
t8 d2 view op0 inputs 0 1 reads t7 t6 -> [] f32 of 1
t9 d2 view op0 inputs -> [0:1] f32 of 1
t10 d2 output o0 reads t7 -> [0:1,0:4] nothing of 1
t11 d2 fold top.2.largest.indices.f32 pending reads t9 -> [0:2] {value:f32(0);index:i64(0)} of 1
t12 d2 fused op0 [0:2,0:2,0:2] finish operands 0 - op0 [0:2,0:2,0:2] pending operands it 1 reads t4 t6 -> [0:2,0:2] f32 of 1
"#;
        let graph = parse(text, &ops()).expect("it is right");
        assert_eq!(print(&graph), text);
        assert_eq!(parse(&print(&graph), &ops()), Ok(graph));
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, line: usize, found: &str, expected: &str| {
            let error = parse(text, &ops()).expect_err(text);
            assert_eq!((error.line, error.found.as_str(), error.expected.as_str()), (line, found, expected), "{text}");
        };
        check("devices x", 1, "`x`", "a number");
        check("\ndevices", 2, "the end", "a number");
        check("op 0 \"z\"", 1, "`z`", "the name of an operation of the graph");
        check("op 1 \"z\"", 1, "`1`", "0");
        check("label 0 \"z", 1, "\"z", "a closed name");
        check("label 0 \"z\" 1", 1, "`1`", "the end of the line");
        check("t1 d0 cut -> [] f32 of 0", 1, "`t1`", "a header or t0");
        check("t0 d0 melt", 1, "`melt`", "a verb");
        check("t0 d0 cut -> [3] f32 of 0", 1, "`[3]`", "a region such as [0:4,2:8]");
        check("t0 d0 cut -> [] {value:f32} of 0", 1, "`{value:f32}`", "nothing, a type, or fields");
        check("t0 d0 fold mean finish", 1, "`mean`", "a monoid");
        check("external 0 gift", 1, "`gift`", "parameter, input or state");
        check("devices 129", 1, "`129`", "at most 128 devices");
        check(
            "t0 d0 cut -> [0:9000000000,0:9000000000]",
            1,
            "`[0:9000000000,0:9000000000]`",
            "a region such as [0:4,2:8]",
        );
        check("t0 d70000 cut", 1, "`d70000`", "d and a number");
        check("t0 d0 cut -> [] f32 slot 1 of 0", 1, "`1`", "offset+bytes");
    }
}
