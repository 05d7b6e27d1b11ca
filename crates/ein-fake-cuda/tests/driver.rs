//! The fake driver: what it does, what it notices, what it lets fail.

mod api_ffi;

use api_ffi as api;
use cudarc::driver::sys::CUresult as Code;
use ein_fake_cuda::{Check, Fake, FakeMachine, Fault, Side, Speeds, install};

const KERNELS: &str = "
extern \"C\" __global__ void fill(unsigned char* a, long long n, long long v) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) ((int*)a)[i] = (int)(v + i);
}
extern \"C\" __global__ void add(unsigned char* a, unsigned char* b, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; if (i < n) ((int*)a)[i] += ((int*)b)[i];
}
extern \"C\" __global__ void count(unsigned char* a, long long atomic) {
  if (atomic) atomicAdd((int*)a, 1); else *(int*)a += 1;
}
extern \"C\" __global__ void diverge(unsigned char* a) {
  if (threadIdx.x < 32) __syncthreads(); else __syncwarp();
  if (threadIdx.x < 32) return;
  while (a[0] == 255) __syncthreads();
}";

fn gpus(machine: &FakeMachine) -> Fake {
    let fake = install(machine).unwrap();
    assert_eq!(api::begin().unwrap() as usize, machine.gpus);
    fake
}

fn both(act: impl Fn(Check)) {
    for check in [Check::None, Check::Bounds, Check::Races] {
        act(check);
    }
}

#[test]
fn kernels_run_on_two_gpus_and_copies_go_between() {
    both(|check| {
        let fake = gpus(&FakeMachine::new(2).check(check));
        let (s, t) = (api::stream(0), api::stream(1));
        let (a, b) = (api::alloc(0, 400).unwrap(), api::alloc(1, 400).unwrap());
        let fill = [api::function(0, KERNELS, "fill").unwrap(), api::function(1, KERNELS, "fill").unwrap()];
        let add = api::function(1, KERNELS, "add").unwrap();
        let c = api::alloc(1, 400).unwrap();
        api::launch(fill[0], 1, 128, 0, &[a, 100, 5], s).unwrap();
        api::launch(fill[1], 4, 32, 0, &[c, 100, 1000], t).unwrap();
        api::copy_peer((0, a), (1, b), 400, s).unwrap();
        api::order(0, s, t);
        api::launch(add, 2, 64, 0, &[b, c, 100], t).unwrap();
        let want: Vec<i32> = (0..100).map(|i| 1005 + 2 * i).collect();
        assert_eq!(api::download(b, 100, t).unwrap(), want);
        assert_eq!(fake.report(), None);
        let counters = fake.counters();
        assert_eq!((counters.kernels, counters.allocations), (3, 3));
        assert_eq!(counters.copied[&(Side::Gpu(0), Side::Gpu(1))], 400);
        for at in [a, b, c] {
            api::free(at).unwrap();
        }
        assert_eq!(fake.used(1), 0);
    });
}

#[test]
fn a_missing_event_is_a_race_and_an_event_is_not() {
    for seed in 0..20 {
        for ordered in [false, true] {
            let fake = gpus(&FakeMachine::new(1).seed(seed));
            let (s, t) = (api::stream(0), api::stream(0));
            let (a, b) = (api::alloc(0, 400).unwrap(), api::alloc(0, 400).unwrap());
            let f = api::function(0, KERNELS, "fill").unwrap();
            let g = api::function(0, KERNELS, "add").unwrap();
            api::launch(f, 1, 128, 0, &[b, 100, 0], s).unwrap();
            api::launch(f, 1, 128, 0, &[a, 100, 5], s).unwrap();
            if ordered {
                api::order(0, s, t);
            }
            api::launch(g, 1, 128, 0, &[a, b, 100], t).unwrap();
            let done = api::wait(t).and_then(|()| api::wait(s));
            if ordered {
                assert_eq!((done, fake.report()), (Ok(()), None));
                assert_eq!(api::download(a, 2, t).unwrap(), [5, 7]);
            } else {
                assert_eq!(done, Err(Code::CUDA_ERROR_ILLEGAL_STATE));
                assert!(fake.report().unwrap().contains("race: kernel"), "{:?}", fake.report());
            }
        }
    }
}

#[test]
fn what_does_not_overlap_or_only_reads_is_no_race() {
    let fake = gpus(&FakeMachine::new(1));
    let streams: Vec<_> = (0..4).map(|_| api::stream(0)).collect();
    let (a, b) = (api::alloc(0, 1600).unwrap(), api::alloc(0, 400).unwrap());
    let f = api::function(0, KERNELS, "fill").unwrap();
    let g = api::function(0, KERNELS, "add").unwrap();
    api::upload(b, &[1; 100], streams[0]).unwrap();
    api::wait(streams[0]).unwrap();
    for (n, &s) in streams.iter().enumerate() {
        let at = a + 400 * n as u64;
        api::launch(f, 1, 128, 0, &[at, 100, n as u64], s).unwrap();
        api::launch(g, 1, 128, 0, &[at, b, 100], s).unwrap();
    }
    for (n, &s) in streams.iter().enumerate() {
        assert_eq!(api::download(a + 400 * n as u64, 1, s).unwrap(), [n as i32 + 1]);
    }
    // The host has waited for all: what it gives now comes after all that.
    api::zero(a, 1600, streams[3]).unwrap();
    api::wait(streams[3]).unwrap();
    // Half a word of another is another's.
    api::launch(f, 1, 128, 0, &[a, 100, 0], streams[0]).unwrap();
    api::zero(a + 398, 2, streams[1]).unwrap();
    assert!(api::wait(streams[0]).and_then(|()| api::wait(streams[1])).is_err());
    assert!(fake.report().unwrap().contains("398 of the 1600 bytes"), "{:?}", fake.report());
}

#[test]
fn memory_that_is_not_there() {
    for check in [Check::Bounds, Check::Races] {
        let machine = FakeMachine::new(2).check(check);
        let expect = |code: Code, part: &str, act: &dyn Fn(usize, u64, usize) -> Result<(), Code>| {
            let fake = gpus(&machine);
            let (s, a) = (api::stream(0), api::alloc(0, 400).unwrap());
            let f = api::function(0, KERNELS, "fill").unwrap();
            assert_eq!(act(s, a, f).and_then(|()| api::wait(s)), Err(code), "{part}");
            assert!(fake.report().unwrap().contains(part), "{part}: {:?}", fake.report());
            // Nothing goes any more on that GPU, as on a real one.
            assert_eq!(api::alloc(0, 4), Err(code));
            fake.heal();
            api::alloc(0, 4).unwrap();
        };
        let address = Code::CUDA_ERROR_ILLEGAL_ADDRESS;
        expect(address, "more than the allocation of 400 bytes", &|s, a, _| api::zero(a, 401, s));
        expect(address, "there is no allocation", &|s, a, _| api::copy(a, a + (1 << 30), 4, s));
        expect(address, "not allocated", &|s, a, f| api::launch(f, 8, 128, 0, &[a + 300, 1024, 0], s));
        expect(address, "was freed", &|s, a, f| {
            api::free(a)?;
            api::launch(f, 1, 128, 0, &[a, 100, 0], s)
        });
        let peer = Code::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
        expect(peer, "no access", &|s, _, f| {
            let b = api::alloc(1, 400)?;
            api::launch(f, 1, 128, 0, &[b, 100, 0], s)
        });
        expect(peer, "no access", &|s, a, _| {
            let b = api::alloc(1, 400)?;
            api::copy(b, a, 400, s)
        });
    }
}

#[test]
fn peers_are_reached_when_that_was_asked_for() {
    both(|check| {
        let fake = gpus(&FakeMachine::new(3).check(check).apart(0, 2));
        let (s, b) = (api::stream(0), api::alloc(1, 400).unwrap());
        let f = api::function(0, KERNELS, "fill").unwrap();
        api::reach(0, 1).unwrap();
        assert_eq!(api::reach(0, 2), Err(Code::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
        api::launch(f, 1, 128, 0, &[b, 100, 7], s).unwrap();
        assert_eq!(api::download(b, 2, s).unwrap(), [7, 8]);
        if check == Check::Races {
            assert_eq!(fake.counters().reached[&(Side::Gpu(0), Side::Gpu(1))], 400);
        }
        // A copy that names both GPUs needs no access.
        let c = api::alloc(2, 8).unwrap();
        let t = api::stream(2);
        api::copy_peer((1, b), (2, c), 8, t).unwrap();
        assert_eq!(api::download(c, 2, t).unwrap(), [7, 8]);
    });
}

#[test]
fn a_captured_graph_of_two_gpus_runs_again_and_again() {
    for seed in 0..10 {
        let fake = gpus(&FakeMachine::new(2).seed(seed));
        let (s, t, u) = (api::stream(0), api::stream(1), api::stream(0));
        let (a, b) = (api::alloc(0, 400).unwrap(), api::alloc(1, 400).unwrap());
        let (f, g) = (api::function(0, KERNELS, "fill").unwrap(), api::function(1, KERNELS, "add").unwrap());
        api::zero(b, 400, t).unwrap();
        api::wait(t).unwrap();
        api::capture(s).unwrap();
        api::launch(f, 1, 128, 0, &[a, 100, 1], s).unwrap();
        api::order(0, s, t);
        api::order(0, s, u);
        api::reach(1, 0).unwrap();
        api::launch(g, 1, 128, 0, &[b, a, 100], t).unwrap();
        api::launch(g, 1, 128, 0, &[b, a, 100], t).unwrap();
        api::order(1, t, s);
        api::order(0, u, s);
        let graph = api::captured(s).unwrap();
        assert_eq!(api::nodes(graph), 3);
        let exec = api::instantiate(graph).unwrap();
        assert_eq!(fake.counters().kernels, 0);
        fake.count_anew();
        for _ in 0..3 {
            api::run(exec, s).unwrap();
        }
        api::wait(s).unwrap();
        let counters = fake.counters();
        assert_eq!((counters.kernels, counters.graphs, counters.allocations, counters.synchronizations), (9, 3, 0, 1));
        assert_eq!(api::download(b, 3, t).unwrap(), [6, 12, 18]);
        assert_eq!(fake.report(), None);
    }
}

#[test]
fn captures_that_are_wrong() {
    let fake = gpus(&FakeMachine::new(1));
    let (s, t) = (api::stream(0), api::stream(0));
    let a = api::alloc(0, 400).unwrap();
    // Work that the origin does not come after.
    api::capture(s).unwrap();
    api::order(0, s, t);
    api::zero(a, 4, t).unwrap();
    assert_eq!(api::captured(t), Err(Code::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
    assert_eq!(api::captured(s), Err(Code::CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    // Waiting for a stream that captures.
    api::capture(s).unwrap();
    assert_eq!(api::wait(s), Err(Code::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(api::captured(s), Err(Code::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    // Waiting for what was not captured.
    let event = api::event(0);
    api::record(event, t).unwrap();
    api::capture(s).unwrap();
    assert_eq!(api::wait_event(s, event), Err(Code::CUDA_ERROR_STREAM_CAPTURE_ISOLATION));
    assert_eq!(api::captured(s), Err(Code::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    // An allocation while this thread captures.
    api::capture(s).unwrap();
    assert_eq!(api::alloc(0, 4), Err(Code::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    assert!(api::captured(s).is_err());
    api::capture(s).unwrap();
    let graph = api::captured(s).unwrap();
    assert_eq!(api::nodes(graph), 0);
    api::run(api::instantiate(graph).unwrap(), s).unwrap();
    api::wait(s).unwrap();
    drop(fake);
}

#[test]
fn graphs_of_explicit_nodes_are_ordered_by_their_edges() {
    for seed in 0..10 {
        for edge in [true, false] {
            let fake = gpus(&FakeMachine::new(1).seed(seed));
            let (s, a, b) = (api::stream(0), api::alloc(0, 4000).unwrap(), api::alloc(0, 4000).unwrap());
            let (f, g) = (api::function(0, KERNELS, "fill").unwrap(), api::function(0, KERNELS, "add").unwrap());
            api::capture(s).unwrap();
            api::launch(g, 1, 128, 0, &[a, b, 100], s).unwrap();
            let child = api::captured(s).unwrap();
            let graph = api::graph();
            let one = api::add_kernel(graph, f, 1, 128, &[a, 100, 1], &[]).unwrap();
            let two = api::add_kernel(graph, f, 1, 128, &[b, 100, 2], &[]).unwrap();
            let after = &[one, two][..if edge { 2 } else { 1 }];
            let three = api::add_child(graph, child, after).unwrap();
            api::add_kernel(graph, g, 1, 128, &[a, b, 100], &[three]).unwrap();
            // Two columns of a matrix of 10 by 10, away from the rest.
            api::add_lines(graph, 0, (a + 1000, 40), (a + 1008, 40), [8, 10]).unwrap();
            let exec = api::instantiate(graph).unwrap();
            api::run(exec, s).unwrap();
            let done = api::wait(s);
            if edge {
                assert_eq!((done, fake.report()), (Ok(()), None));
                assert_eq!(api::download(a, 2, s).unwrap(), [5, 8]);
            } else {
                assert_eq!(done, Err(Code::CUDA_ERROR_ILLEGAL_STATE));
            }
        }
    }
}

#[test]
fn faults_strike_where_they_were_told_to() {
    let fake = gpus(&FakeMachine::new(2).memory(1 << 20));
    assert_eq!(api::alloc(0, (1 << 20) + 1), Err(Code::CUDA_ERROR_OUT_OF_MEMORY));
    let a = api::alloc(0, 1 << 20).unwrap();
    assert_eq!(api::alloc(0, 1), Err(Code::CUDA_ERROR_OUT_OF_MEMORY));
    let b = api::alloc(1, 400).unwrap();
    fake.fail(Fault::Alloc(1));
    api::free(api::alloc(1, 400).unwrap()).unwrap();
    assert_eq!(api::alloc(1, 400), Err(Code::CUDA_ERROR_OUT_OF_MEMORY));
    api::free(api::alloc(1, 400).unwrap()).unwrap();

    let (s, t) = (api::stream(0), api::stream(1));
    let f = api::function(0, KERNELS, "fill").unwrap();
    fake.fail(Fault::Launch(1));
    for _ in 0..3 {
        api::launch(f, 1, 128, 0, &[a, 100, 0], s).unwrap();
    }
    assert_eq!(api::wait(s), Err(Code::CUDA_ERROR_LAUNCH_FAILED));
    assert_eq!(fake.counters().kernels, 2);
    // The other GPU goes on.
    api::zero(b, 400, t).unwrap();
    api::wait(t).unwrap();
    fake.heal();

    fake.fail(Fault::Lost { gpu: 1, after: 1 });
    api::zero(a, 400, s).unwrap();
    api::zero(a, 400, s).unwrap();
    api::wait(s).unwrap();
    api::zero(b, 400, t).unwrap();
    api::wait(t).unwrap();
    api::zero(b, 400, t).unwrap();
    assert_eq!(api::wait(t), Err(Code::CUDA_ERROR_DEVICE_UNAVAILABLE));
    assert_eq!(api::zero(b, 400, t), Err(Code::CUDA_ERROR_DEVICE_UNAVAILABLE));
    fake.heal();

    fake.fail(Fault::Compile(0));
    assert!(api::compile(KERNELS).unwrap_err().contains("told to fail"));
    api::compile(KERNELS).unwrap();
    assert!(api::compile("nothing").unwrap_err().contains("kernels.cu:1"));
    for at in [a, b] {
        api::free(at).unwrap();
    }
}

#[test]
fn what_a_kernel_does_wrong_is_told() {
    let fake = gpus(&FakeMachine::new(1));
    let (s, a) = (api::stream(0), api::alloc(0, 400).unwrap());
    let f = api::function(0, KERNELS, "diverge").unwrap();
    api::launch(f, 1, 64, 0, &[a], s).unwrap();
    assert_eq!(api::wait(s), Err(Code::CUDA_ERROR_LAUNCH_FAILED));
    assert!(fake.report().unwrap().contains("divergent"), "{:?}", fake.report());
    fake.heal();
    // More shared memory than was asked for.
    assert_eq!(api::launch(f, 1, 64, 50_000, &[a], s), Err(Code::CUDA_ERROR_INVALID_VALUE));
    api::allow_shared(f, 50_000).unwrap();
    assert!(api::allow_shared(f, 300_000).is_err());
    // A function of another GPU.
    drop(fake);
    let fake = gpus(&FakeMachine::new(2));
    let t = api::stream(1);
    assert_eq!(api::launch(f, 1, 64, 0, &[a], t), Err(Code::CUDA_ERROR_INVALID_CONTEXT));
    assert!(fake.report().unwrap().contains("another GPU"));
}

#[test]
fn what_the_architecture_does_not_have_is_refused_by_name() {
    const TEXT: &str = "extern \"C\" __global__ void f(unsigned char* a) { a[0] = 1; }";
    for (capability, most) in [((8, 0), 163 << 10), ((8, 6), 99 << 10), ((9, 0), 227 << 10)] {
        let fake = gpus(&FakeMachine { capability, ..FakeMachine::new(1) });
        let (s, a) = (api::stream(0), api::alloc(0, 64).unwrap());
        let f = api::function(0, TEXT, "f").unwrap();
        assert_eq!(api::launch(f, 1, 1, 49 << 10, &[a], s), Err(Code::CUDA_ERROR_INVALID_VALUE));
        assert!(fake.report().unwrap().contains("cuFuncSetAttribute"), "{:?}", fake.report());
        fake.heal();
        api::allow_shared(f, most).unwrap();
        api::launch(f, 1, 1, most as u32, &[a], s).and_then(|()| api::wait(s)).unwrap();
        assert_eq!(api::allow_shared(f, most + 1), Err(Code::CUDA_ERROR_INVALID_VALUE));
        assert!(fake.report().unwrap().contains("compute capability"), "{:?}", fake.report());
    }
    let fake = gpus(&FakeMachine::new(1));
    let (s, a) = (api::stream(0), api::alloc(0, 64).unwrap());
    let f = api::function(0, TEXT, "f").unwrap();
    assert_eq!(api::launch(f, 1, 1025, 0, &[a], s), Err(Code::CUDA_ERROR_INVALID_VALUE));
    assert!(fake.report().unwrap().contains("1024 in all"), "{:?}", fake.report());
}

#[test]
fn times_between_events_follow_from_what_is_done() {
    let speeds = Speeds { launch: 1e-3, latency: 4e-3, copies: 1e6, memory: 1e6, ..Speeds::default() };
    let fake = gpus(&FakeMachine::new(2).speeds(speeds));
    let (s, a, b) = (api::stream(0), api::alloc(0, 4000).unwrap(), api::alloc(1, 4000).unwrap());
    let [begin, between, end] = [(); 3].map(|()| api::clock(0));
    api::record(begin, s).unwrap();
    api::zero(a, 4000, s).unwrap();
    api::record(between, s).unwrap();
    api::copy_peer((0, a), (1, b), 2000, s).unwrap();
    api::record(end, s).unwrap();
    api::wait(s).unwrap();
    assert_eq!(api::milliseconds(begin, between), 5.0);
    assert_eq!(api::milliseconds(between, end), 7.0);
    assert_eq!(fake.report(), None);
}

#[test]
fn atomics_do_not_race_with_each_other() {
    for atomic in [true, false] {
        let fake = gpus(&FakeMachine::new(1));
        let (s, t, a) = (api::stream(0), api::stream(0), api::alloc(0, 64).unwrap());
        let f = api::function(0, KERNELS, "count").unwrap();
        api::zero(a, 64, s).unwrap();
        api::wait(s).unwrap();
        api::launch(f, 2, 3, 0, &[a, 1], s).unwrap();
        api::launch(f, 5, 7, 0, &[a, u64::from(atomic)], t).unwrap();
        assert_eq!(api::wait(s).and_then(|()| api::wait(t)).is_ok(), atomic, "{:?}", fake.report());
        if atomic {
            assert_eq!(api::download(a, 1, s).unwrap(), [41]);
        }
    }
}

#[test]
fn blocks_of_a_launch_are_ordered_by_nothing() {
    let texts = [
        ("a[threadIdx.x] = 1;", "writes what another block of the same launch writes"),
        ("a[blockIdx.x] = a[1 - blockIdx.x];", "another block of the same launch"),
        (
            "if (blockIdx.x == 1) a[0] = 1; else a[4] = a[threadIdx.x];",
            "writes what another block of the same launch reads",
        ),
        ("a[blockIdx.x * 4 + threadIdx.x] = a[8] + a[9];", ""),
        ("atomicAdd((int*)a, 1);", ""),
        ("if (blockIdx.x == 0) a[8] = 1; if (atomicAdd((int*)a, 1) == 7) a[9] = a[8];", ""),
    ];
    for (n, (text, part)) in texts.into_iter().enumerate() {
        let fake = gpus(&FakeMachine::new(1));
        let (s, a) = (api::stream(0), api::alloc(0, 64).unwrap());
        let source = format!("extern \"C\" __global__ void k{n}(unsigned char* a) {{ {text} }}");
        let f = api::function(0, &source, &format!("k{n}")).unwrap();
        api::zero(a, 64, s).unwrap();
        api::launch(f, 2, 4, 0, &[a], s).unwrap();
        let done = api::wait(s);
        if part.is_empty() {
            assert_eq!((done, fake.report()), (Ok(()), None), "{text}");
        } else {
            assert_eq!(done, Err(Code::CUDA_ERROR_ILLEGAL_STATE), "{text}");
            assert!(fake.report().unwrap().contains(part), "{text}: {:?}", fake.report());
        }
    }
}

#[test]
fn lines_of_bytes_are_copied_where_they_belong() {
    both(|check| {
        let fake = gpus(&FakeMachine::new(2).check(check));
        let (s, a, b) = (api::stream(0), api::alloc(0, 400).unwrap(), api::alloc(1, 400).unwrap());
        let values: Vec<i32> = (0..100).collect();
        api::upload(a, &values, s).unwrap();
        api::wait(s).unwrap();
        let t = api::stream(1);
        api::words(b, 7, 100, t).unwrap();
        // A block of 3 by 5 out of 10 by 10 into another place of 20 columns.
        api::copy_lines((0, a + 4 * 12, 40), (1, b + 4 * 41, 80), [20, 3], t).unwrap();
        let got = api::download(b, 100, t).unwrap();
        for (n, &v) in got.iter().enumerate() {
            let (r, c) = (n / 20, n % 20);
            let inside = (2..5).contains(&r) && (1..6).contains(&c);
            assert_eq!(v, if inside { (12 + (r - 2) * 10 + c - 1) as i32 } else { 7 }, "{r} {c}");
        }
        // Lines nearer to each other than they are long, and a GPU that is not the memory's.
        let wrong = api::copy_lines((0, a, 8), (1, b, 80), [20, 3], t);
        assert_eq!(wrong, Err(Code::CUDA_ERROR_INVALID_VALUE));
        assert_eq!(api::copy_lines((1, a, 40), (1, b, 80), [20, 3], t), Err(Code::CUDA_ERROR_ILLEGAL_ADDRESS));
        drop(fake);
    });
}

#[test]
fn the_hosts_memory_is_watched_where_it_is_pinned() {
    let machine = FakeMachine { driver: 11080, ..FakeMachine::new(1) };
    let fake = gpus(&machine);
    assert_eq!(api::driver_version(), 11080);
    let (s, t, a) = (api::stream(0), api::stream(0), api::alloc(0, 400).unwrap());
    let host = api::alloc_host(400).unwrap();
    let mut values = vec![3; 100];
    api::upload(a, &values, s).unwrap();
    // The bytes of unpinned memory were taken in the call.
    values.fill(4);
    api::copy(a, host, 400, s).unwrap();
    assert_eq!(api::read_host(host, 1), [-1]);
    api::wait(s).unwrap();
    assert_eq!(api::read_host(host, 100), [3; 100]);
    assert_eq!(fake.counters().copied[&(Side::Gpu(0), Side::Host)], 400);
    api::copy(a, host, 400, s).unwrap();
    api::copy(host, a, 4, t).unwrap();
    assert!(api::wait(s).and_then(|()| api::wait(t)).is_err());
    assert!(fake.report().unwrap().contains("race: copy"), "{:?}", fake.report());
    fake.heal();
    api::free_host(host).unwrap();
    assert_eq!(api::copy(host, a, 4, t).and_then(|()| api::wait(t)), Err(Code::CUDA_ERROR_ILLEGAL_ADDRESS));
    assert!(fake.report().unwrap().contains("freed"), "{:?}", fake.report());
}
