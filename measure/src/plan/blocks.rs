//! Decoder layers on machines, against every fixed strategy that is balanced and fits.

use super::Arguments;
use super::question::{Answer, Question};
use crate::report::{Section, each};
use serde_json::Value;

const MODELS: [&str; 3] = ["llama-7b-block", "llama-13b-block", "llama-70b-block"];
const SETTINGS: [&str; 6] =
    ["1x4096", "8x1024", "32x128", "packed=2750+1810+1290+930+690+440+282", "1x131072", "decode=64x4096"];
/// Machines, and the type that they compute fast.
const MACHINES: [(&str, &str); 7] = [
    ("8xa100", "bf16"),
    ("dgx-1v", "f16"),
    ("pcie-8", "bf16"),
    ("2x8xa100", "bf16"),
    ("8xa100:6", "bf16"),
    ("8xa100:7", "bf16"),
    ("unequal", "bf16"),
];
/// Rounding in sums of seconds.
const TOLERANCE: f64 = 1e-9;
/// The fixed strategy of Megatron-LM.
const MEGATRON: &str = "tensor";
/// Of what is compared, how many rows are shown unless all are asked for.
const SHOWN: usize = 20;

/// What is compared, each under the objective that minimises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Cost,
    Simulated,
    Bytes,
}

impl Figure {
    const ALL: [Figure; 3] = [Self::Cost, Self::Simulated, Self::Bytes];

    fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Simulated => "simulated seconds",
            Self::Bytes => "bytes",
        }
    }

    fn objective(self) -> &'static str {
        match self {
            Self::Cost => "time",
            Self::Simulated => "makespan",
            Self::Bytes => "bytes",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Simulated => "simulated_seconds",
            Self::Bytes => "bytes_total",
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Cost | Self::Simulated => format!("{:.3} ms", value * 1e3),
            Self::Bytes => format!("{:.2} MB", value / 1e6),
        }
    }
}

/// A plan's figure beside those of fixed strategies.
struct Ratio {
    block: String,
    machine: &'static str,
    figure: Figure,
    ours: f64,
    /// The least of a strategy that is balanced and fits, with its name.
    best: Option<(f64, String)>,
    megatron: Option<f64>,
}

impl Ratio {
    fn of(&self, theirs: f64) -> f64 {
        match (self.ours, theirs) {
            (ours, 0.0) => {
                if ours == 0.0 {
                    1.0
                } else {
                    f64::INFINITY
                }
            }
            (ours, theirs) => ours / theirs,
        }
    }

    fn against_best(&self) -> f64 {
        self.best.as_ref().map_or(0.0, |b| self.of(b.0))
    }
}

/// The section.
pub fn section(arguments: &Arguments) -> Section {
    let mut section =
        Section::new("Blocks against the best fixed strategy that is balanced and fits (priced, simulated, counted)");
    let questions = questions(arguments);
    let answers = each(&questions, |(_, _, question)| question.ask(arguments.limit));
    let mut ratios: Vec<Ratio> = Vec::new();
    let mut gaps: Vec<(f64, String)> = Vec::new();
    for ((block, machine, question), answer) in questions.iter().zip(answers) {
        match answer {
            Ok(answer) => {
                let gap = answer.number("/report/gap");
                // Of the makespan only the arithmetic is a bound.
                if question.objective != "makespan" {
                    gaps.push((gap, format!("`{block}` on `{machine}`, {}", question.objective)));
                }
                let figures = Figure::ALL.into_iter().filter(|f| f.objective() == question.objective);
                ratios.extend(figures.map(|figure| ratio(block, machine, figure, &answer)));
            }
            Err(reason) => {
                section.verdict(
                    format!("`{block}` on `{machine}`, {}", question.objective),
                    "is planned",
                    reason,
                    false,
                );
            }
        }
    }
    ratios.sort_by(|a, b| b.against_best().total_cmp(&a.against_best()));
    for figure in Figure::ALL {
        let own: Vec<&Ratio> = ratios.iter().filter(|r| r.figure == figure && r.best.is_some()).collect();
        let Some(worst) = own.first() else { continue };
        let above = own.iter().filter(|r| r.against_best() > 1.0 + TOLERANCE).count();
        let found = format!(
            "{:.6} (`{}` on `{}`); {above} of {} above",
            worst.against_best(),
            worst.block,
            worst.machine,
            own.len()
        );
        section.verdict(format!("{} over the best fixed, worst", figure.name()), "≤ 1.000", found, above == 0);
    }
    if let Some((gap, what)) = gaps.iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
        section.say(&format!("Largest gap: {:.3} % ({what}).", gap * 100.0));
    }
    means(&ratios, &mut section);
    let shown = if arguments.rows { ratios.len() } else { SHOWN };
    let row = |r: &Ratio| {
        let other = |value: Option<f64>| value.map_or("—".into(), |v| format!("{:.4}", r.of(v)));
        vec![
            format!("`{}`", r.block),
            format!("`{}`", r.machine),
            r.figure.name().into(),
            r.figure.shown(r.ours),
            r.best.as_ref().map_or("—".into(), |b| format!("{} ({})", r.figure.shown(b.0), b.1)),
            other(r.best.as_ref().map(|b| b.0)),
            other(r.megatron),
        ]
    };
    let table: Vec<Vec<String>> = ratios.iter().take(shown).map(row).collect();
    section.table(&["block", "machine", "figure", "ours", "best fixed", "ours ÷ best fixed", "ours ÷ tensor"], &table);
    section
}

/// Every block on every machine by every objective, those that were asked for.
fn questions(arguments: &Arguments) -> Vec<(String, &'static str, Question)> {
    let mut all = Vec::new();
    for (machine, dtype) in MACHINES {
        for model in MODELS {
            for (n, setting) in SETTINGS.iter().enumerate() {
                let block = format!("{model}:{setting}");
                let quick = n < 2 && (machine == "8xa100" || model == MODELS[0]);
                if !arguments.wants(&block, machine) || (arguments.quick && !quick) {
                    continue;
                }
                for objective in ["time", "makespan", "bytes"] {
                    let asked = Question::new(&format!("{block},{dtype}"), machine);
                    let question = Question { objective: objective.into(), compare: true, ..asked };
                    all.push((block.clone(), machine, question));
                }
            }
        }
    }
    all
}

fn ratio(block: &str, machine: &'static str, figure: Figure, answer: &Answer) -> Ratio {
    let ours = answer.number(&format!("/report/{}", figure.key()));
    let usable = |s: &&Value| s["refused"].is_null() && s["fits"] == true && s["balanced"] == true;
    let value = |s: &Value| Some((s[figure.key()].as_f64()?, s["strategy"].as_str()?.to_string()));
    let usable: Vec<(f64, String)> = answer.list("/strategies").iter().filter(usable).filter_map(value).collect();
    let megatron = usable.iter().find(|s| s.1 == MEGATRON).map(|s| s.0);
    let best = usable.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    Ratio { block: block.into(), machine, figure, ours, best, megatron }
}

/// Geometric means over the blocks on eight A100.
fn means(ratios: &[Ratio], section: &mut Section) {
    let mut table = Vec::new();
    for figure in Figure::ALL {
        let own: Vec<&Ratio> = ratios.iter().filter(|r| r.figure == figure && r.machine == "8xa100").collect();
        let best = own.iter().filter(|r| r.best.is_some()).map(|r| r.against_best());
        let megatron = own.iter().filter_map(|r| r.megatron.map(|m| r.of(m)));
        if let (Some(best), Some(megatron)) = (geometric_mean(best), geometric_mean(megatron)) {
            table.push(vec![
                figure.name().into(),
                format!("{best:.4}"),
                format!("{megatron:.4}"),
                own.len().to_string(),
            ]);
        }
    }
    let head = ["geometric mean on `8xa100`", "ours ÷ best fixed", "ours ÷ tensor", "blocks"];
    section.table(&head, &table);
}

/// The geometric mean of ratios, plans that move nothing aside.
fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.filter(|&r| r > 0.0).map(f64::ln).collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_best_fixed_strategy_is_balanced_and_fits() {
        let strategy = |name: &str, cost: f64, fits: bool, balanced: bool| json!({ "strategy": name, "refused": null, "cost": cost, "fits": fits, "balanced": balanced });
        let strategies = json!([
            strategy("one-device", 1.0, true, false),
            strategy("data", 2.0, false, true),
            strategy("tensor", 8.0, true, true),
            strategy("ulysses", 4.0, true, true),
            { "strategy": "fsdp", "refused": "too few" },
        ]);
        let answer = Answer(json!({ "report": { "cost": 2.0 }, "strategies": strategies }));
        let found = ratio("block", "8xa100", Figure::Cost, &answer);
        assert_eq!(found.best, Some((4.0, "ulysses".into())));
        assert_eq!((found.against_best(), found.megatron), (0.5, Some(8.0)));
    }

    #[test]
    fn means_are_geometric() {
        assert_eq!(geometric_mean([].into_iter()), None);
        assert!((geometric_mean([0.5, 2.0, 0.0].into_iter()).unwrap() - 1.0).abs() < 1e-12);
        let nothing = Ratio {
            block: String::new(),
            machine: "",
            figure: Figure::Bytes,
            ours: 0.0,
            best: Some((0.0, String::new())),
            megatron: None,
        };
        assert!((nothing.against_best() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn rows_are_chosen_by_name() {
        let count = |machine: &[&str], workload: &str, quick: bool| {
            let machine = machine.iter().map(ToString::to_string).collect();
            questions(&Arguments {
                what: vec![],
                machine,
                workload: workload.into(),
                quick,
                rows: false,
                report: true,
                limit: 1.0,
            })
            .len()
        };
        assert_eq!(count(&[], "", false), 3 * 7 * 3 * 6);
        assert_eq!(count(&[], "", true), 3 * (2 * 3 + 6 * 2));
        assert_eq!(count(&["8xa100:6"], "7b-block:1x4096", false), 3);
    }
}
