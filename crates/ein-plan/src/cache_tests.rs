use super::*;
use crate::deadline::tests::pass_after;
use crate::options::{ExchangeStyle, Objective, Placement, Strategy};
use crate::saved::{SavedError, print, read};
use ein_task::machine::DeviceId;
use ein_task::units::{Bytes, Seconds};
use std::collections::BTreeMap;
use std::time::Duration;

/// A store in memory that counts what it gave and took.
#[derive(Clone, Default)]
struct Texts(Arc<Mutex<BTreeMap<String, String>>>);

impl Texts {
    fn only(&self) -> (String, String) {
        let texts = self.0.lock().unwrap();
        assert_eq!(texts.len(), 1, "one question has one text");
        texts.iter().next().map(|(key, text)| (key.clone(), text.clone())).unwrap()
    }

    fn set(&self, key: &str, text: String) {
        self.0.lock().unwrap().insert(key.into(), text);
    }
}

impl Store for Texts {
    fn load(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap().get(key).cloned()
    }

    fn keep(&self, key: &str, text: &str) {
        self.set(key, text.into());
    }
}

/// Two products with a map between them, whose constant is given.
fn graph(constant: &str) -> Graph {
    let text = format!(
        "x: input f32[12, 16]\nw: param f32[16, 24]\nv: param f32[24, 8]\n\
         a = einsum f32 (i: 12, n: 24 | k: 16) sum x[i, k] * w[k, n]\n\
         \"b c\" = einsum f32 (i: 12, n: 24) map max(a[i, n], {constant})\n\
         y = einsum f32 (i: 12, m: 8 | n: 24) sum \"b c\"[i, n] * v[n, m]\nt = permute y [1, 0]\nreturn t\n"
    );
    ein_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn machine(name: &str) -> Machine {
    Machine::by_name(name).unwrap()
}

#[test]
fn a_question_is_answered_once() {
    let texts = Texts::default();
    let (graph, machine, options) = (graph("0.0"), machine("8xa100"), Options::default());
    let cache = Cache::with_store(texts.clone());
    let (first, origin) = cache.plan(&graph, &machine, &options).unwrap();
    assert_eq!(origin, Origin::Planned);
    let (second, origin) = cache.plan(&graph, &machine, &options).unwrap();
    assert_eq!(origin, Origin::Process);
    assert!(Arc::ptr_eq(&first, &second));
    let (third, origin) = Cache::with_store(texts.clone()).plan(&graph, &machine, &options).unwrap();
    assert_eq!(origin, Origin::Store);
    assert_eq!(*third, *first);
    // Without a store a new cache knows nothing.
    assert_eq!(Cache::default().plan(&graph, &machine, &options).unwrap().1, Origin::Planned);
}

/// Whatever changes the question changes the answer: nothing else is found, here or in the store.
#[test]
fn every_part_of_a_question_counts() {
    let texts = Texts::default();
    let cache = Cache::with_store(texts.clone());
    let asked = Options::default();
    let mut slower = machine("4xcpu");
    slower.resources[0].bandwidth *= 0.5;
    let mut smaller = machine("4xcpu");
    smaller.devices[3].memory = Bytes(1 << 30);
    let questions = [
        (graph("0.0"), machine("4xcpu"), asked.clone()),
        (graph("1.0"), machine("4xcpu"), asked.clone()),
        (graph("0.0"), machine("3xcpu"), asked.clone()),
        (graph("0.0"), slower, asked.clone()),
        (graph("0.0"), smaller, asked.clone()),
        (graph("0.0"), machine("4xcpu"), Options { objective: Objective::Bytes, ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { objective: Objective::Memory, ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { balance: false, ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { memory: Some(Bytes(1 << 20)), ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { wide_partials: true, ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { inputs: Placement::Replicated, ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { outputs: Placement::Device(DeviceId(1)), ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { strategy: Some(Strategy::Data), ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { exchange: ExchangeStyle::Naive, ..asked.clone() }),
        (graph("0.0"), machine("4xcpu"), Options { overlap: false, ..asked }),
    ];
    for (graph, machine, options) in &questions {
        assert_eq!(cache.plan(graph, machine, options).unwrap().1, Origin::Planned, "{options:?}");
    }
    for (n, (graph, machine, options)) in questions.iter().enumerate() {
        let (plan, origin) = cache.plan(graph, machine, options).unwrap();
        assert_eq!(origin, Origin::Process, "{n}");
        assert_eq!(plan.machine, *machine, "{n}");
        assert_eq!(Cache::with_store(texts.clone()).plan(graph, machine, options).unwrap().1, Origin::Store, "{n}");
    }
    assert_eq!(texts.0.lock().unwrap().len(), questions.len());
}

/// A text that was cut short, changed, of another question or of another planner is planned afresh and replaced.
#[test]
fn what_is_not_the_answer_is_replaced() {
    let texts = Texts::default();
    let (graph, machine, options) = (graph("0.0"), machine("2xcpu"), Options::default());
    let right = Cache::with_store(texts.clone()).plan(&graph, &machine, &options).unwrap().0;
    let (key, text) = texts.only();
    let check = |what: &str, wrong: String| {
        texts.set(&key, wrong);
        let (plan, origin) = Cache::with_store(texts.clone()).plan(&graph, &machine, &options).unwrap();
        assert_eq!(origin, Origin::Planned, "{what}");
        assert_eq!((&plan.choice, &plan.tasks), (&right.choice, &right.tasks), "{what}");
        assert_eq!(
            Cache::with_store(texts.clone()).plan(&graph, &machine, &options).unwrap().1,
            Origin::Store,
            "{what}"
        );
    };
    check("nothing", String::new());
    check("another file", "\u{0}\u{1}PNG".into());
    for part in 0..12 {
        check("cut short", text[..text.len() * part / 12].into());
    }
    for part in 0..12 {
        let at = text.len() * part / 12;
        let other = if &text[at..=at] == "1" { "2" } else { "1" };
        check("changed", format!("{}{other}{}", &text[..at], &text[at + 1..]));
    }
    check("of another planner", text.replace(PLANNER, "0.0.9 0123456789abcdef"));
    let other = Cache::with_store(Texts::default());
    let elsewhere = other.plan(&graph, &Machine::by_name("3xcpu").unwrap(), &options).unwrap().0;
    check("of another machine", format!("{}seconds 1.0\n{}", head(&options), print(&elsewhere)));
    let asked = Options { objective: Objective::Bytes, ..Options::default() };
    check("of other options", text.replace(&head(&options), &head(&asked)));
}

/// What is printed reads back as the same plan, whatever was asked.
#[test]
fn saved_plans_read_back() {
    let check = |graph: &Graph, machine: &str, options: &Options| {
        let machine = Machine::by_name(machine).unwrap();
        let mut plan = plan(graph, &machine, options).unwrap_or_else(|e| panic!("{e}"));
        let text = print(&plan);
        let back = read(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(print(&back), text);
        plan.report.planning_seconds = Seconds(0.0);
        assert_eq!(back, plan);
    };
    let time = Options::default();
    let bytes = Options { objective: Objective::Bytes, ..Options::default() };
    for machine in ["1xcpu", "3xcpu", "8xa100", "dgx-1v", "pcie-8"] {
        check(&graph("0.5"), machine, &time);
        check(&graph("0.5"), machine, &bytes);
    }
    let empty = "x: input f32[0, 4]\ny = einsum f32 (j: 4 | i: 0) sum x[i, j]\nreturn y\n";
    check(&ein_ir::text::parse(empty).unwrap(), "2xcpu", &time);
    let scalar = "x: state bf16[40]\ny = einsum bf16 (| i: 40) sum x[i]\nreturn y\nreturn x\n";
    check(&ein_ir::text::parse(scalar).unwrap(), "4xcpu", &Options { inputs: Placement::Device(DeviceId(3)), ..time });
}

/// A text whose sum is right is believed no more than any other.
#[test]
fn a_right_sum_proves_nothing() {
    let plan = plan(&graph("0.0"), &machine("2xcpu"), &Options::default()).unwrap();
    let text = print(&plan);
    let body = text.rsplit_once("sum ").unwrap().0;
    let check = |from: &str, to: &str, part: &str| {
        assert!(body.contains(from), "`{from}` is not in\n{body}");
        let body = body.replacen(from, to, 1);
        let text = format!("{body}sum {:032x}\n", xxh3_128(body.as_bytes()));
        match read(&text) {
            Err(SavedError::Part { part: found, .. }) => assert_eq!(found, part, "{from}: {to}"),
            Err(other) => panic!("{from}: {to}: {other}"),
            Ok(_) => panic!("{from}: {to} is believed"),
        }
    };
    check("home \"y\"", "home \"z\"", "choice");
    check("row \"y\" [", "row \"y\" [0:1,0:1,0:1]@0 [", "choice");
    check("home \"x\"", "home \"x\" [0:1,0:1]@0", "choice");
    check("devices 2", "devices 3", "tasks");
    check("external 0 input", "external 0 parameter", "tasks");
    check("output 0 \"y\"", "output 0 \"a\"", "tasks");
    check("fused op0 [0:6", "fused op0 [0:5", "tasks");
}

#[test]
fn only_plans_are_read() {
    for text in ["", "einsummable plan", "einsummable plan 2\nplanner x\n", "x: input f32[2]\nreturn x\n"] {
        assert_eq!(read(text), Err(SavedError::NotAPlan), "{text}");
    }
    assert_eq!(read(&format!("{}\nplanner {PLANNER}\n", crate::saved::FIRST_LINE)), Err(SavedError::Damaged));
}

/// What a time limit ended is not kept; what is kept answers whatever the limit.
#[test]
fn ended_searches_are_not_kept() {
    let texts = Texts::default();
    let (graph, machine) = (graph("0.0"), machine("8xa100"));
    let ample = Options { time_limit: Some(Duration::from_hours(1)), ..Options::default() };
    let cache = Cache::with_store(texts.clone());
    let mut ended = 0;
    for looks in 0..200 {
        pass_after(Some(looks));
        let found = cache.plan(&graph, &machine, &ample);
        pass_after(None);
        match found {
            Ok((plan, origin)) if plan.report.effort.stopped => assert_eq!(origin, Origin::Planned),
            Ok(_) => break,
            Err(_) => {}
        }
        ended += 1;
        assert!(texts.0.lock().unwrap().is_empty());
    }
    assert!(ended > 0);
    texts.only();
    for time_limit in [None, Some(Duration::from_nanos(1)), ample.time_limit] {
        let options = Options { time_limit, ..Options::default() };
        assert_eq!(cache.plan(&graph, &machine, &options).unwrap().1, Origin::Process);
        assert_eq!(Cache::with_store(texts.clone()).plan(&graph, &machine, &options).unwrap().1, Origin::Store);
    }
}
