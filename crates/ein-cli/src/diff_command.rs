//! `ein plan diff`.

use crate::args::{Cli, Command, Diff};
use crate::failure::Failure;
use crate::output;
use crate::plan_command::{planned, refused};
use crate::source;
use clap::Parser as _;
use ein_plan::plan::Plan;
use ein_plan::saved;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// Compares two plans.
pub fn diff(args: &Diff) -> Result<(), Failure> {
    let (a, b) = (plan(&args.a)?, plan(&args.b)?);
    let difference = ein_plan::diff::diff(&a, &b).map_err(refused)?;
    if args.json {
        let mut value = serde_json::to_value(&difference).map_err(Failure::run)?;
        (value["a"], value["b"]) = (json!(args.a), json!(args.b));
        output::print(&format!("{value:#}\n"))?;
    } else {
        output::print(&format!("A  {}\nB  {}\n\n{difference}", args.a, args.b))?;
    }
    if difference.equal { Ok(()) } else { Err(Failure::Differs("the plans differ".into())) }
}

/// The plan of a file, or of a question as it is asked of `ein plan`.
fn plan(text: &str) -> Result<Arc<Plan>, Failure> {
    let path = Path::new(text);
    if path.is_file() {
        let content = source::read(path).map_err(Failure::request)?;
        if content.starts_with(saved::FIRST_LINE) {
            return saved::read(&content).map(Arc::new).map_err(|e| Failure::request(format!("{text}: {e}")));
        }
    }
    let bad = |reason: String| Failure::request(format!("`{text}`: {reason}"));
    let words = ["ein", "plan"].into_iter().chain(text.split_whitespace());
    let cli = Cli::try_parse_from(words).map_err(|e| {
        let said = e.to_string();
        let said = said.lines().next().unwrap_or_default().trim_start_matches("error: ");
        bad(format!("{said}; expected is a file of `ein plan --save`, or what is asked of `ein plan`, in quotes"))
    })?;
    match cli.command {
        Command::Plan(args) if args.also.is_none() => Ok(planned(&args.source, &args.asked)?.plan),
        _ => Err(bad("expected is a file of `ein plan --save`, or what is asked of `ein plan`, in quotes".into())),
    }
}
