//! `ein run GRAPH.ein`: a graph in text form, with the values of its inputs.

use crate::args::Run as RunArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::run_command::{check, finish_json, finish_text, session as failed};
use crate::source;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::op::{InputKind, Op};
use einsummable::weights::Weights;
use einsummable::{Dense, Session};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Elements of an output that are printed; `--json` has all of them.
const SHOWN: usize = 16;

/// Runs a graph once.
pub fn run(args: &RunArgs, session: &Session, path: &Path) -> Result<(), Failure> {
    if !args.text.is_empty() || args.pixels.is_some() || args.new_tokens.is_some() {
        return Err(Failure::request(format!(
            "{}: a graph takes the values of its inputs, by --set NAME=VALUES or --tensors FILE; leave --text, --pixels and --new-tokens out",
            args.model
        )));
    }
    let graph = source::text_graph(path)?;
    let values = values(args, &graph)?;
    let progress = Progress::start("planning and running");
    let mut compiled = session.compile_graph(&graph, &values).map_err(failed)?;
    // Parameters are loaded already.
    let arrives = |name: &str| graph.find(name).is_some_and(|id| graph.node(id).op != Op::Input(InputKind::Parameter));
    let arriving = values.iter().filter(|(name, _)| arrives(name)).map(|(name, value)| (name.clone(), value.clone()));
    let outputs = compiled.run(arriving).map_err(failed)?;
    drop(progress);
    let error = check(args, &compiled, &values)?;
    if args.asked.json {
        let told = |x: &Dense| json!({ "dtype": x.dtype().name(), "shape": x.shape, "values": elements(x, x.len()) });
        let outputs: Map<String, Value> = outputs.iter().map(|(name, x)| (name.clone(), told(x))).collect();
        return finish_json(args, &compiled, &Value::Object(outputs), error, json!({}));
    }
    let mut out = String::new();
    for (name, x) in &outputs {
        let shown: Vec<String> = elements(x, SHOWN).iter().map(ToString::to_string).collect();
        let more = if x.len() > SHOWN { format!(" … {} more", x.len() - SHOWN) } else { String::new() };
        let _ = writeln!(out, "  {name} {}\n    {}{more}", x.ty(), shown.join(" ").replace('"', ""));
    }
    finish_text(args, &compiled, error, out)
}

/// The first elements; what JSON has no number for is text.
fn elements(x: &Dense, most: usize) -> Vec<Value> {
    let element = |n: usize| {
        let value = x.get(n);
        match x.dtype() {
            DType::Bool => json!(value != 0.0),
            DType::I64 | DType::I32 | DType::U8 => json!(value as i64),
            DType::F64 if value.is_finite() => json!(value),
            // The fewest digits that give the value back in its own type.
            DType::F32 | DType::BF16 | DType::F16 if value.is_finite() => {
                json!((value as f32).to_string().parse::<f64>().unwrap_or(value))
            }
            DType::F64 | DType::F32 | DType::BF16 | DType::F16 => json!(value.to_string().to_lowercase()),
        }
    };
    (0..x.len().min(most)).map(element).collect()
}

/// A value for every input of the graph, from `--set` or from the file of `--tensors`.
fn values(args: &RunArgs, graph: &Graph) -> Result<BTreeMap<String, Dense>, Failure> {
    let mut set: BTreeMap<&str, &str> = BTreeMap::new();
    for text in &args.set {
        let (name, list) = text
            .split_once('=')
            .ok_or_else(|| Failure::request(format!("--set {text}: NAME=VALUES is expected, such as x=1,2,3")))?;
        let known = graph.find(name).is_some_and(|id| matches!(graph.node(id).op, Op::Input(_)));
        if !known {
            let all: Vec<&str> = inputs(graph).map(|(name, _)| name).collect();
            let why = format!("the graph has no input `{name}`; it has {}", all.join(", "));
            return Err(Failure::request(format!("--set {text}: {why}")));
        }
        if set.insert(name, list).is_some() {
            return Err(Failure::request(format!("--set {text}: `{name}` is set twice")));
        }
    }
    let file = match &args.tensors {
        None => None,
        Some(path) => {
            let wrong = |e| Failure::request(format!("--tensors {}: {e}", path.display()));
            Some((path, Weights::open_file(path).map_err(wrong)?))
        }
    };
    let mut values = BTreeMap::new();
    for (name, ty) in inputs(graph) {
        let value = match (set.get(name), &file) {
            (Some(list), _) => listed(list, ty).map_err(|e| Failure::request(format!("--set {name}={list}: {e}")))?,
            (None, Some((path, tensors))) if tensors.shape(name).is_some() => {
                let wrong = |e: String| Failure::request(format!("--tensors {}: {e}", path.display()));
                let mut bytes = vec![0; ty.bytes() as usize];
                tensors.check_tensor(name, ty).map_err(|e| wrong(e.to_string()))?;
                tensors.read(name, ty, &ty.whole(), &mut bytes).map_err(|e| wrong(e.to_string()))?;
                Dense::from_le_bytes(ty, &bytes).expect("as many bytes as its type has")
            }
            (None, _) => {
                return Err(Failure::request(format!(
                    "the input `{name}` is {ty} and has no value; give it with --set {name}=… or in the file of --tensors"
                )));
            }
        };
        values.insert(name.to_owned(), value);
    }
    Ok(values)
}

/// Names and types of the graph's inputs, parameters and state.
fn inputs(graph: &Graph) -> impl Iterator<Item = (&str, &TensorType)> {
    graph.nodes().iter().filter(|n| matches!(n.op, Op::Input(_))).map(|n| (n.name.as_str(), &n.ty))
}

/// `1,2,3`, `0..12` (integers, the last excluded), `6*0.5` (one number repeated), or a list of these.
fn listed(list: &str, ty: &TensorType) -> Result<Dense, String> {
    let expected = ty.elements();
    let number = |word: &str| match word {
        "true" => Ok(1.0),
        "false" => Ok(0.0),
        word => word.parse::<f64>().map_err(|_| format!("`{word}` is no number")),
    };
    let mut values: Vec<f64> = Vec::new();
    for word in list.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        let room = expected.saturating_sub(values.len());
        // Of more than there is room for, one too many is enough to say so.
        if let Some((low, high)) = word.split_once("..") {
            let (low, high) = (number(low)? as i64, number(high)? as i64);
            values.extend((low..high).take(room + 1).map(|v| v as f64));
        } else if let Some((times, value)) = word.split_once('*') {
            let times: usize = times.trim().parse().map_err(|_| format!("`{times}` is no count"))?;
            values.extend(std::iter::repeat_n(number(value.trim())?, times.min(room + 1)));
        } else {
            values.push(number(word)?);
        }
        if values.len() > expected {
            return Err(format!("there are more values than the {expected} elements of {ty}"));
        }
    }
    if values.len() < expected {
        return Err(format!("there are {} values for the {expected} elements of {ty}", values.len()));
    }
    Ok(Dense::from_f64(ty.dtype, ty.shape.clone(), &values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_values() {
        let check = |list: &str, shape: &[usize], expected: Result<&[f64], &str>| {
            let found = listed(list, &TensorType::new(DType::F32, shape)).map(|d| d.to_f64());
            match expected {
                Ok(values) => assert_eq!(found.as_deref(), Ok(values), "{list}"),
                Err(part) => assert!(found.as_ref().is_err_and(|e| e.contains(part)), "{list}: {found:?}"),
            }
        };
        check("1, -2.5,inf", &[3], Ok(&[1.0, -2.5, f64::INFINITY]));
        check("0..3,2*7", &[5], Ok(&[0.0, 1.0, 2.0, 7.0, 7.0]));
        check("", &[0, 4], Ok(&[]));
        check("5", &[], Ok(&[5.0]));
        check("0..3", &[2, 2], Err("3 values for the 4 elements"));
        check("0..99999999999", &[2], Err("more values than the 2 elements"));
        check("99999999999*1", &[2], Err("more values than the 2 elements"));
        check("a", &[1], Err("`a` is no number"));
        check("x*1", &[1], Err("`x` is no count"));
    }
}
