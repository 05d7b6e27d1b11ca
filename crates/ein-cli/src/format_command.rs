//! `ein format`: graphs in text form, laid out.

use crate::args::Format;
use crate::failure::Failure;
use crate::output;
use crate::source::read;
use std::io::Read as _;
use std::path::Path;

/// Prints, writes back or checks the layout of texts. Nothing is printed or written if one of them is wrong.
pub fn format(asked: &Format) -> Result<(), Failure> {
    let mut texts = Vec::new();
    for name in &asked.files {
        let text = if name == "-" { standard_input()? } else { read(Path::new(name)).map_err(Failure::request)? };
        let shown = if name == "-" { "standard input" } else { name };
        let laid_out = ein_ir::text::format(&text).map_err(|e| Failure::request(format!("{shown}: {e}")))?;
        texts.push((name.as_str(), text, laid_out));
    }
    if asked.check {
        let differ = texts.iter().filter(|(_, text, laid_out)| text != laid_out);
        let wrong: Vec<String> = differ.map(|(name, text, laid_out)| first_difference(name, text, laid_out)).collect();
        return if wrong.is_empty() { Ok(()) } else { Err(Failure::Differs(wrong.join("\n"))) };
    }
    for (name, text, laid_out) in &texts {
        if !asked.write || *name == "-" {
            output::print(laid_out)?;
        } else if text != laid_out {
            output::write(Path::new(name), laid_out)?;
        }
    }
    Ok(())
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    match std::io::stdin().read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(e) => Err(Failure::request(format!("standard input: {e}"))),
    }
}

/// Where a text first differs from its layout, and how to lay it out.
fn first_difference(name: &str, text: &str, laid_out: &str) -> String {
    let same = text.split('\n').zip(laid_out.split('\n')).take_while(|(a, b)| a == b).count();
    let line = same + 1;
    if name == "-" {
        return format!("standard input: line {line} is not laid out; `ein format -` does it");
    }
    format!("{name}: line {line} is not laid out; `ein format --write {name}` does it")
}
