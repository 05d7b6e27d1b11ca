//! A folder to run the command in, with files made for it.
#![allow(dead_code)]

use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longer than any request here may take, even on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The small model that every checkout has.
pub fn llama() -> PathBuf {
    fixture("llama-tiny/model")
}

/// Something that every checkout has.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

/// A folder of its own, gone when dropped.
pub struct Place {
    program: PathBuf,
    variables: Vec<(String, String)>,
    folder: PathBuf,
    outside: PathBuf,
    stderr: RefCell<String>,
}

impl Place {
    pub fn new() -> Self {
        Self::of(crate::EIN, &[])
    }

    /// One for another program that takes the same requests, with some variables set.
    pub fn of(program: &str, variables: &[(&str, &str)]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let outside = std::env::temp_dir().join(format!("ein-cli-{}-{number}", std::process::id()));
        let folder = outside.join("here");
        fs::create_dir_all(&folder).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { program: program.into(), variables, folder, outside, stderr: RefCell::default() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder in which its plans are kept.
    pub fn kept(&self) -> PathBuf {
        self.outside.join("kept/plans")
    }

    pub fn file(&self, name: &str, text: &str) {
        self.bytes(name, text.as_bytes());
    }

    pub fn bytes(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// A copy of the small model, edited.
    pub fn model(&self, name: &str, edit: impl Fn(&Path)) {
        let folder = self.path(name);
        fs::create_dir(&folder).unwrap();
        for entry in fs::read_dir(llama()).unwrap() {
            let from = entry.unwrap().path();
            // A new file rather than a copy, which would inherit a read-only mode.
            fs::write(folder.join(from.file_name().unwrap()), fs::read(&from).unwrap()).unwrap();
        }
        edit(&folder);
    }

    /// Standard error of the last request.
    pub fn stderr(&self) -> String {
        self.stderr.borrow().clone()
    }

    /// Runs a line of words; returns standard output.
    pub fn check(&self, line: &str, code: i32, parts: &[&str]) -> String {
        self.check_args(&line.split_whitespace().collect::<Vec<_>>(), code, parts)
    }

    /// Runs the command: the exit code must be `code`, standard error must have every part, and nothing may be left
    /// half done. Returns standard output.
    pub fn check_args(&self, args: &[&str], code: i32, parts: &[&str]) -> String {
        let before = self.listing();
        let out = self.outside.join("stdout");
        let status = self.wait(args, self.command(args).stdout(File::create(&out).unwrap()).spawn().unwrap());
        let (stdout, stderr) = (fs::read_to_string(&out).unwrap(), self.stderr());
        let shown = shown(args);
        assert_eq!(status, Some(code), "ein {shown}\n{stderr}{stdout}");
        for part in parts {
            assert!(stderr.contains(part), "ein {shown}: no {part:?} in\n{stderr}");
        }
        for fault in ["panicked", "backtrace", "RUST_BACKTRACE"] {
            assert!(!stderr.contains(fault), "ein {shown}\n{stderr}");
        }
        if code == 0 {
            assert_eq!(stderr, "", "ein {shown}");
        } else {
            // What differs was done, and is shown.
            assert!(code == 4 || stdout.is_empty(), "ein {shown}\n{stdout}");
            assert_eq!(self.listing(), before, "ein {shown} left files");
            // One line, but for what shows a place in a text, and for the parser of the command line.
            let lines = stderr.lines().count();
            let pointing = stderr.lines().last().is_some_and(|l| l.ends_with('^'));
            let words = ["error: ", "Runs AI", "List, draw"].iter().any(|w| stderr.starts_with(w));
            assert!(
                words || stderr.starts_with("ein: ") && (lines == 1 || lines == 3 && pointing),
                "ein {shown}\n{stderr}"
            );
        }
        stdout
    }

    /// As [`Place::check`], with a standard output that has no space left.
    pub fn check_full(&self, line: &str, code: i32, parts: &[&str]) {
        let args: Vec<&str> = line.split_whitespace().collect();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = self.wait(&args, self.command(&args).stdout(full).spawn().unwrap());
        assert_eq!(status, Some(code), "ein {line}");
        assert!(parts.iter().all(|p| self.stderr().contains(p)), "ein {line}\n{}", self.stderr());
    }

    /// Runs with a reader that takes one byte and goes; the exit code and standard error.
    pub fn cut_off(&self, line: &str) -> (Option<i32>, String) {
        let args: Vec<&str> = line.split_whitespace().collect();
        let mut child = self.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = child.stdout.take().unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 1, "ein {line}");
        drop(reader);
        (self.wait(&args, child), self.stderr())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let err = File::create(self.outside.join("stderr")).unwrap();
        command
            .args(args)
            .current_dir(&self.folder)
            .env("RUST_BACKTRACE", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("EIN_CACHE_DIR", self.outside.join("kept"))
            .stdin(Stdio::null())
            .stderr(err);
        command
    }

    fn wait(&self, args: &[&str], mut child: Child) -> Option<i32> {
        let start = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(2)),
                None => {
                    child.kill().unwrap();
                    panic!("ein {} hangs", shown(args));
                }
            }
        };
        *self.stderr.borrow_mut() = fs::read_to_string(self.outside.join("stderr")).unwrap();
        status.code()
    }

    fn listing(&self) -> BTreeSet<PathBuf> {
        fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outside);
    }
}

fn shown(args: &[&str]) -> String {
    args.join(" ").chars().take(200).collect()
}

/// Rewrites a JSON file.
pub fn edited(path: &Path, edit: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    edit(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// A safetensors file with another header before the same data.
pub fn with_header(bytes: &[u8], edit: impl Fn(&mut Value)) -> Vec<u8> {
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..end]).unwrap();
    edit(&mut header);
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[end..]].concat()
}
