//! `ein` where GPUs are found that are not there. `EIN_FAKE_GPUS` says what they are, in words such as `gpus=2 memory=MIB
//! driver=VERSION`, and what fails: `alloc=N`, `launch=N`, `compile=N`, `lost=GPU:N`, each after so many more.

use ein_fake_cuda::{Check, FakeMachine, Fault, install};
use std::process::ExitCode;

fn main() -> ExitCode {
    let asked = std::env::var("EIN_FAKE_GPUS").expect("EIN_FAKE_GPUS says what GPUs there are");
    let mut machine = FakeMachine::new(1).check(Check::Bounds);
    let mut faults = Vec::new();
    for word in asked.split_whitespace() {
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        match name {
            "gpus" => machine.gpus = number(value) as usize,
            "memory" => machine.memory = number(value) << 20,
            "driver" => machine.driver = number(value) as i32,
            "alloc" => faults.push(Fault::Alloc(number(value))),
            "launch" => faults.push(Fault::Launch(number(value))),
            "compile" => faults.push(Fault::Compile(number(value))),
            "lost" => {
                let (gpu, after) = value.split_once(':').expect("GPU:N");
                faults.push(Fault::Lost { gpu: number(gpu) as usize, after: number(after) });
            }
            other => panic!("EIN_FAKE_GPUS: {other}?"),
        }
    }
    let fake = install(&machine).expect("g++ is there");
    for fault in faults {
        fake.fail(fault);
    }
    let code = ein_cli::run();
    if let (0, Some(report)) = (code, fake.report()) {
        eprintln!("fake GPUs: {report}");
    }
    ExitCode::from(code)
}
