//! Plans that are kept in a folder, by several processes at once as far as the folder can tell.

use ein_plan::cache::{Cache, Origin, Store};
use einsummable::plan_store::PlanStore;
use einsummable::{DType, Dense, Session, Tensor};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// A folder of its own, gone when dropped.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ein-kept-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn store(&self) -> PlanStore {
        PlanStore::new(self.0.join("plans"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.store().folder()).map(|e| e.flatten().collect()).unwrap_or_default();
        let entries: Vec<fs::DirEntry> = entries;
        let mut names: Vec<String> = entries.iter().map(|e| e.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A session that keeps plans in a folder, as a process of its own would.
fn session(place: &Place) -> Session {
    Session::cpu(3).unwrap().with_cache(Arc::new(Cache::with_store(place.store())))
}

fn compile(session: &Session, columns: usize) -> (Origin, Vec<f64>) {
    let x = Tensor::input("x", [4, 6], DType::F32);
    let w = Tensor::constant("w", Dense::f32([6, columns], vec![0.5; 6 * columns]));
    let mut compiled = session.compile(&[("y", &x.matmul(&w))]).unwrap();
    let outputs = compiled.run([("x", Dense::f32([4, 6], vec![2.0; 24]))]).unwrap();
    (compiled.origin(), outputs["y"].to_f64())
}

#[test]
fn sessions_share_plans_over_a_folder() {
    let place = Place::new();
    let first = session(&place);
    assert_eq!(compile(&first, 5), (Origin::Planned, vec![6.0; 20]));
    assert_eq!(compile(&first, 5), (Origin::Process, vec![6.0; 20]));
    assert_eq!(compile(&first, 7), (Origin::Planned, vec![6.0; 28]));
    assert_eq!(compile(&session(&place), 5), (Origin::Store, vec![6.0; 20]));
    assert_eq!(place.names().len(), 2, "two questions, and nothing half written: {:?}", place.names());
    // A session on its own keeps nothing in files.
    let alone = Session::cpu(3).unwrap();
    assert_eq!(compile(&alone, 5).0, Origin::Planned);
    assert_eq!(compile(&alone.clone(), 5).0, Origin::Process);
}

#[test]
fn damaged_files_are_replaced() {
    let place = Place::new();
    compile(&session(&place), 5);
    let name = place.names().remove(0);
    let path = place.store().folder().join(&name);
    let right = fs::read(&path).unwrap();
    let check = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        assert_eq!(compile(&session(&place), 5), (Origin::Planned, vec![6.0; 20]));
        assert_eq!(compile(&session(&place), 5), (Origin::Store, vec![6.0; 20]));
    };
    check(b"");
    check(&[0xff; 100]);
    check(&right[..right.len() / 2]);
    check(&[&right[..], b"more"].concat());
    // What cannot be read, and cannot be replaced either: a folder in its place.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(compile(&session(&place), 5), (Origin::Planned, vec![6.0; 20]));
    assert_eq!(place.names(), [name]);
}

/// A place that cannot be written is no failure.
#[test]
fn a_folder_that_cannot_be() {
    let place = Place::new();
    fs::write(&place.0, "a file").unwrap();
    assert_eq!(compile(&session(&place), 5).0, Origin::Planned);
    fs::remove_file(&place.0).unwrap();
}

/// Many write and read the same few keys: every text that is read is one that was written, whole.
#[test]
fn many_at_once() {
    let place = Place::new();
    let text = |key: usize, version: usize| format!("{key} {version} {}", "x".repeat(1000 * (version % 7 + 1)));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = place.store();
            scope.spawn(move || {
                for n in 0..60 {
                    let key = (n + thread) % 3;
                    store.keep(&format!("{key:032x}"), &text(key, n));
                    let Some(found) = store.load(&format!("{:032x}", n % 3)) else { continue };
                    let version = found.split(' ').nth(1).and_then(|v| v.parse().ok()).expect("a version");
                    assert_eq!(found, text(n % 3, version));
                }
            });
        }
    });
    assert_eq!(place.names(), [0, 1, 2].map(|key| format!("{key:032x}.plan")));
}

fn aged(path: &Path, seconds: u64) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let place = Place::new();
    let store = place.store().with_limits(100_000, 3);
    let key = |n: usize| format!("{n:032x}");
    let file = |n: usize| format!("{n:032x}.plan");
    for n in 0..3 {
        store.keep(&key(n), "text");
        aged(&store.folder().join(file(n)), 100 - n as u64);
    }
    // Reading is use.
    assert_eq!(store.load(&key(0)).as_deref(), Some("text"));
    store.keep(&key(3), "text");
    assert_eq!(place.names(), [0, 2, 3].map(file));
    // What is too large is not kept, and what takes too much together goes.
    store.keep(&key(4), &"x".repeat(30_000));
    assert_eq!(place.names(), [0, 2, 3].map(file));
    let store = place.store().with_limits(10_000, 100);
    for n in 5..12 {
        store.keep(&key(n), &"x".repeat(2_000));
        aged(&store.folder().join(file(n)), 100 - n as u64);
    }
    assert_eq!(place.names(), [0, 3, 8, 9, 10, 11].map(file));
    // Parts of processes that died go in time; fresh ones are somebody's.
    let (old, new) = (store.folder().join("a.1.2.part"), store.folder().join("b.1.2.part"));
    fs::write(&old, "").unwrap();
    fs::write(&new, "").unwrap();
    aged(&old, 2 * 60 * 60);
    store.keep(&key(1), "text");
    assert!(!old.exists() && new.exists());
}
