//! Kernels on the host: what they compute, and what is noticed.

use ein_fake_cuda::TensorMap;
use ein_fake_cuda::shim::{Argument, Memory, Module};

fn run(source: &str, grid: u32, block: u32, shared: u32, out: &Memory, n: i32) -> Result<(), String> {
    let args = [Argument::Pointer(out.address()), Argument::I32(n)];
    Module::compile(source)?.launch("k", [grid, 1, 1], [block, 1, 1], shared, &args)
}

fn kernel(body: &str) -> String {
    format!("extern \"C\" __global__ void k(unsigned char* out, int n) {{\n{body}\n}}\n")
}

#[test]
fn a_kernel_without_barriers() {
    for n in [1, 31, 1000] {
        let out = Memory::new(4 * n as usize);
        let text = kernel(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) ((float*)out)[i] = fmaf(i, 2.0f, expf(0.0f));",
        );
        run(&text, (n as u32).div_ceil(128), 128, 0, &out, n).unwrap();
        let want: Vec<f32> = (0..n).map(|i| i as f32 * 2.0 + 1.0).collect();
        assert_eq!(out.read::<f32>().unwrap(), want);
    }
}

#[test]
fn static_and_dynamic_shared_memory_with_barriers() {
    let text = kernel(
        "__shared__ int a[256]; extern __shared__ __align__(16) unsigned char s[]; int* b = (int*)s; int t = threadIdx.x;
         a[t] = t + blockIdx.x; __syncthreads(); b[t] = a[blockDim.x - 1 - t]; __syncthreads();
         int sum = 0; for (int i = 0; i < blockDim.x; i++) sum += b[i] * (i == (t + 1) % blockDim.x);
         ((int*)out)[blockIdx.x * blockDim.x + t] = sum;",
    );
    for block in [1u32, 37, 256] {
        let out = Memory::new(3 * 4 * block as usize);
        run(&text, 3, block, 4 * block, &out, 0).unwrap();
        let want: Vec<i32> =
            (0..3).flat_map(|b| (0..block).map(move |t| (block - 1 - (t + 1) % block + b) as i32)).collect();
        assert_eq!(out.read::<i32>().unwrap(), want, "{block}");
    }
}

#[test]
fn shared_memory_is_nan_at_the_begin_of_a_block() {
    let text = kernel(
        "__shared__ float a[4]; extern __shared__ float b[]; int t = threadIdx.x;
         ((int*)out)[blockIdx.x * 4 + t] = isnan(a[t]) && isnan(b[t]); a[t] = b[t] = 1.0f;",
    );
    let out = Memory::new(32);
    run(&text, 2, 4, 16, &out, 0).unwrap();
    assert_eq!(out.read::<i32>().unwrap(), [1; 8]);
}

#[test]
fn a_missing_barrier_shows() {
    let body = |barrier: &str| {
        kernel(&format!(
            "__shared__ int a[64]; int t = threadIdx.x; a[t] = t; {barrier} ((int*)out)[blockIdx.x * 64 + t] = a[63 - t];"
        ))
    };
    let out = Memory::new(4 * 64 * 4);
    run(&body("__syncthreads();"), 4, 64, 0, &out, 0).unwrap();
    let want: Vec<i32> = (0..4).flat_map(|_| (0..64).rev()).collect();
    assert_eq!(out.read::<i32>().unwrap(), want);
    run(&body(""), 4, 64, 0, &out, 0).unwrap();
    assert_ne!(out.read::<i32>().unwrap(), want);
}

#[test]
fn shuffles_and_ballots() {
    let text = kernel(
        "int t = threadIdx.x; float v = t; for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
         unsigned odd = __ballot_sync(0xffffffffu, t & 1); int up = __shfl_up_sync(0xffffffffu, t, 3);
         int down = __shfl_down_sync(0xffffffffu, t, 3, 8); double one = __shfl_sync(0xffffffffu, (double)t, 5);
         int low = __reduce_min_sync(0xffffffffu, 100 - t); int all[32]; ein_shim_lane_values(t * t, all);
         int* o = (int*)out + t * 7; o[0] = (int)v; o[1] = (int)odd; o[2] = up; o[3] = down; o[4] = (int)one; o[5] = low;
         o[6] = all[(t + 1) % 32];",
    );
    let out = Memory::new(4 * 7 * 64);
    run(&text, 1, 64, 0, &out, 0).unwrap();
    let got = out.read::<i32>().unwrap();
    for t in 0..64i32 {
        let (warp, lane) = (t / 32 * 32, t % 32);
        let sum = (0..32).map(|l| l + warp).sum();
        let up = if lane >= 3 { t - 3 } else { t };
        let down = if lane % 8 < 5 { t + 3 } else { t };
        let low = 100 - warp - 31;
        let square = (warp + (lane + 1) % 32).pow(2);
        let want = [sum, 0xaaaa_aaaau32 as i32, up, down, warp + 5, low, square];
        let at = t as usize * 7;
        assert_eq!(got[at..at + 7], want, "{t}");
    }
}

#[test]
fn lanes_that_a_short_warp_lacks_take_no_part() {
    let text = kernel(
        "int v = 1; for (int d = 16; d; d >>= 1) { int o = __shfl_xor_sync(0xffffffffu, v, d); if (o > 0) v += o; }
         ((int*)out)[threadIdx.x] = __popc(__ballot_sync(0xffffffffu, 1));",
    );
    let out = Memory::new(4 * 20);
    run(&text, 1, 20, 0, &out, 0).unwrap();
    assert_eq!(out.read::<i32>().unwrap(), [20; 20]);
}

#[test]
fn warps_may_part_by_masks() {
    let text = kernel(
        "int t = threadIdx.x; int v;
         if (t < 8) { v = __shfl_sync(0xffu, t, 7); v += __shfl_sync(0xffu, t, 6); } else v = __shfl_sync(0xffffff00u, t, 9);
         __syncwarp(); ((int*)out)[t] = v;",
    );
    let out = Memory::new(4 * 32);
    run(&text, 1, 32, 0, &out, 0).unwrap();
    let want: Vec<i32> = (0..32).map(|t| if t < 8 { 13 } else { 9 }).collect();
    assert_eq!(out.read::<i32>().unwrap(), want);
}

#[test]
fn threads_that_exit_count_as_arrived() {
    let text = kernel("if (threadIdx.x >= n) return; __syncthreads(); ((int*)out)[threadIdx.x] = 1; __syncthreads();");
    let out = Memory::new(4 * 64);
    run(&text, 2, 64, 0, &out, 40).unwrap();
    assert_eq!(out.read::<i32>().unwrap().iter().sum::<i32>(), 40);
}

#[test]
fn divergence_is_an_error() {
    let out = Memory::new(4 * 64);
    let expect = |body: &str, part: &str| {
        let e = run(&kernel(body), 1, 64, 0, &out, 0).unwrap_err();
        assert!(e.contains(part), "{body}: {e}");
    };
    expect("if (threadIdx.x < 32)\n __syncthreads();\n else\n __syncthreads();", "divergent barriers");
    expect("if (threadIdx.x == 3) return; __syncwarp();", "waits for lanes ffffffff of its warp at line 2");
    expect("if (threadIdx.x & 1)\n __syncwarp();\n else\n __shfl_sync(~0u, 1, 0);", "divergent warp");
    expect("if (threadIdx.x >= 32) ein_shim_barrier(1, 64);", "waits at barrier 1");
    expect("__shfl_sync(1u, 1, 0);", "takes part");
    // And all is well afterwards.
    run(&kernel("__syncthreads();"), 1, 64, 0, &out, 0).unwrap();
}

#[test]
fn named_barriers() {
    let text = kernel(
        "__shared__ int a[2]; int w = threadIdx.x / 64; if (threadIdx.x % 64 == 63) a[w] = w + 7; ein_shim_barrier(1 + w, 64);
         ((int*)out)[threadIdx.x] = a[w];",
    );
    let out = Memory::new(4 * 128);
    run(&text, 1, 128, 0, &out, 0).unwrap();
    let want: Vec<i32> = (0..128).map(|t| t / 64 + 7).collect();
    assert_eq!(out.read::<i32>().unwrap(), want);
}

#[test]
fn memory_that_is_not_there() {
    let out = Memory::new(400);
    let e = run(&kernel("((int*)out)[threadIdx.x + n] = 1;"), 1, 64, 0, &out, 100 + 28).unwrap_err();
    assert!(e.contains("not allocated"), "{e}");
    let e = run(&kernel("((int*)out)[threadIdx.x] = ((int*)0)[n];"), 1, 64, 0, &out, 0).unwrap_err();
    assert!(e.contains("not allocated"), "{e}");
    run(&kernel("((int*)out)[n] = 1;"), 1, 1, 0, &out, 100).unwrap();
    assert!(out.read::<i32>().is_err());
    let e = run(&kernel("extern __shared__ int s[]; s[n] = 1;"), 1, 1, 16, &out, 4).unwrap_err();
    assert!(e.contains("behind its 16 bytes of dynamic shared memory"), "{e}");
}

#[test]
fn a_deep_stack() {
    let text = "__device__ __noinline__ int f(int n, int* a) { int b[64]; b[n & 63] = a[0]; return n ? f(n - 1, b) + b[0] : a[n]; }"
        .to_string()
        + &kernel("int a[64] = {n}; ((int*)out)[0] = f(n, a);");
    let out = Memory::new(4);
    run(&text, 1, 1, 0, &out, 10).unwrap();
    let e = run(&text, 1, 1, 0, &out, 100000).unwrap_err();
    assert!(e.contains("more stack"), "{e}");
}

#[test]
fn asynchronous_copies_arrive_when_waited_for() {
    let body = |groups: u32| {
        kernel(&format!(
            "__shared__ int a[64]; int t = threadIdx.x; ein_shim_copy_async(a + t, (int*)out + t, 4); ein_shim_copy_commit();
             ein_shim_copy_async(a + 32 + t, (int*)out + 32 + t, 4); ein_shim_copy_commit(); ein_shim_copy_wait({groups});
             __syncthreads(); int v = a[31 - t], w = a[63 - t]; __syncthreads(); ein_shim_copy_wait(0); __syncthreads();
             ((int*)out)[t] = v; ((int*)out)[32 + t] = w;"
        ))
    };
    let values: Vec<i32> = (0..64).collect();
    let out = Memory::of(&values);
    run(&body(0), 1, 32, 0, &out, 0).unwrap();
    let want: Vec<i32> = (0..32).rev().chain((32..64).rev()).collect();
    assert_eq!(out.read::<i32>().unwrap(), want);
    let out = Memory::of(&values);
    run(&body(1), 1, 32, 0, &out, 0).unwrap();
    let want: Vec<i32> = (0..32).rev().chain([-1; 32]).collect();
    assert_eq!(out.read::<i32>().unwrap(), want);
    let e = run(&kernel("__shared__ int a; ein_shim_copy_async(&a, out, 4);"), 1, 1, 0, &out, 0).unwrap_err();
    assert!(e.contains("before it waited"), "{e}");
}

#[test]
fn a_warp_multiplies_matrices() {
    // m16n8k8 in tf32's fragments, which are those of the instruction.
    let text = "struct Mma { float d[4], a[4], b[2]; };
        static void mma(void** lanes, unsigned) {
          float a[16][8], b[8][8];
          for (int l = 0; l < 32; l++) { Mma* m = (Mma*)lanes[l]; int g = l / 4, t = l % 4;
            a[g][t] = m->a[0]; a[g + 8][t] = m->a[1]; a[g][t + 4] = m->a[2]; a[g + 8][t + 4] = m->a[3];
            b[t][g] = m->b[0]; b[t + 4][g] = m->b[1]; }
          for (int l = 0; l < 32; l++) { Mma* m = (Mma*)lanes[l];
            for (int i = 0; i < 4; i++) { int r = l / 4 + (i / 2) * 8, c = l % 4 * 2 + i % 2;
              for (int k = 0; k < 8; k++) m->d[i] += a[r][k] * b[k][c]; } }
        }
        "
    .to_string()
        + &kernel(
            "int l = threadIdx.x, g = l / 4, t = l % 4; Mma m = {};
             #define A(r, k) (float)((r) * 8 + (k))
             #define B(k, c) (float)((k) - (c))
             m.a[0] = A(g, t); m.a[1] = A(g + 8, t); m.a[2] = A(g, t + 4); m.a[3] = A(g + 8, t + 4);
             m.b[0] = B(t, g); m.b[1] = B(t + 4, g);
             ein_shim_warp(mma, &m);
             for (int i = 0; i < 4; i++) ((float*)out)[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = m.d[i];",
        );
    let out = Memory::new(4 * 128);
    run(&text, 1, 32, 0, &out, 0).unwrap();
    let want: Vec<f32> = (0..128).map(|i| (0..8).map(|k| ((i / 8 * 8 + k) * (k - i % 8)) as f32).sum()).collect();
    assert_eq!(out.read::<f32>().unwrap(), want);
}

#[test]
fn what_a_launch_may_not_be() {
    let out = Memory::new(4);
    let module = Module::compile(&kernel("__shared__ float a[12000]; a[n] = 0; out[0] = a[0];")).unwrap();
    let args = [Argument::Pointer(out.address()), Argument::I32(0)];
    module.launch("k", [1; 3], [1; 3], 0, &args).unwrap();
    assert_eq!(module.shared("k"), Some(48000));
    for (grid, block, shared) in
        [([0, 1, 1], [1; 3], 0), ([1, 65536, 1], [1; 3], 0), ([1; 3], [1025, 1, 1], 0), ([1; 3], [1; 3], 190_000)]
    {
        assert!(module.launch("k", grid, block, shared, &args).is_err());
    }
    assert!(module.launch("other", [1; 3], [1; 3], 0, &args).is_err());
    assert!(module.launch("k", [1; 3], [1; 3], 0, &args[..1]).is_err());
    let e = Module::compile("\nextern \"C\" __global__ void k() { nothing(); }").unwrap_err();
    assert!(e.contains("kernels.cu:2"), "{e}");
}

#[test]
fn the_languages_own() {
    let text = kernel(
        "float4 v = make_float4(1, 2, 3, 4); int* o = (int*)out; o[0] = (int)(v.x + v.w); o[1] = __float_as_int(1.0f);
         o[2] = atomicAdd(o + 3, 5); o[3] += atomicCAS((unsigned long long*)(o + 4), 0ull, 7ull) == 0; o[5] = max(3, -1);
         o[6] = (int)min(5LL, 9); o[7] = __clz(1) + (int)exp(0.0f) + (int)sqrt(16.0) + isnan(__int_as_float(0x7fc00000));
         o[8] = __byte_perm(0x03020100u, 0x07060504u, 0x7531u); assert(n == 0);",
    );
    let out = Memory::new(36);
    run(&text, 1, 1, 0, &out, 0).unwrap();
    assert_eq!(out.read::<i32>().unwrap(), [5, 0x3f80_0000, 0, 6, 7, 3, 5, 37, 0x0705_0301]);
    let e = run(&text, 1, 1, 0, &out, 1).unwrap_err();
    assert!(e.contains("assert(n == 0)"), "{e}");
}

/// A tensor of 16-bit values, 100 by 5 by 3 by 2, each its own number, whose lines are 112 apart.
fn tensor(values: &Memory) -> TensorMap {
    TensorMap {
        dtype: 1,
        address: values.address(),
        extents: vec![100, 5, 3, 2],
        steps: vec![224, 224 * 5, 224 * 15],
        boxes: vec![64, 4, 1, 1],
        every: vec![1; 4],
        interleave: 0,
        swizzle: 3,
        fill: 0,
    }
}

const BULK: &str = "struct __align__(64) Map { unsigned long long words[16]; };
    extern \"C\" __global__ void k(unsigned char* out, const __grid_constant__ Map map, int x, int y, int bytes) {
      extern __shared__ __align__(1024) unsigned char s[];
      unsigned long long* b = (unsigned long long*)(s + 512);
      if (threadIdx.x == 0) ein_shim_phases_make(b, 1);
      __syncthreads();
      if (threadIdx.x == 0) { ein_shim_phases_arrive(b, bytes); ein_shim_bulk_copy(&map, s, b, x, y, 2, 1); }
      WAIT
      for (int n = threadIdx.x; n < 256; n += 32) ((unsigned short*)out)[n] = ((unsigned short*)s)[n];
      AFTER
    }";

fn bulk(wait: &str, after: &str, x: i32, y: i32, bytes: i32) -> Result<Vec<u16>, String> {
    let values = Memory::of(&(0..112 * 30).map(|n| n as u16).collect::<Vec<_>>());
    let out = Memory::new(512);
    let map = Argument::Map(tensor(&values).encode((9, 0)).expect("a tensor that bulk copies take"));
    let args = [Argument::Pointer(out.address()), map, Argument::I32(x), Argument::I32(y), Argument::I32(bytes)];
    let text = BULK.replace("WAIT", wait).replace("AFTER", after);
    Module::compile(&text)?.launch("k", [1; 3], [32, 1, 1], 1024, &args)?;
    Ok(out.read::<u16>()?)
}

#[test]
fn boxes_of_tensors_are_copied_swizzled_with_zeros_around() {
    for (x, y) in [(0, 0), (64, 0), (-3, 2), (37, -2), (0, 5), (-64, 0), (7, 3)] {
        let left = bulk("ein_shim_phases_wait(b, 0);", "", x, y, 512).unwrap();
        for line in 0..4i32 {
            for place in 0..64i32 {
                let (at, row) = (x + place, y + line);
                let inside = (0..100).contains(&at) && (0..5).contains(&row);
                let value = if inside { (112 * (row + 5 * (2 + 3)) + at) as u16 } else { 0 };
                let word = (place / 8) ^ (line % 8);
                assert_eq!(left[(line * 64 + word * 8 + place % 8) as usize], value, "{x} {y}: {line} {place}");
            }
        }
    }
}

#[test]
fn bulk_copies_are_waited_for() {
    // Not waited for, or for the phase before: what is read is all ones.
    for wait in ["", "ein_shim_phases_wait(b, 1);"] {
        assert_eq!(bulk(wait, "ein_shim_phases_wait(b, 0);", 0, 0, 512).unwrap(), [0xffff; 256], "{wait}");
    }
    let fails = |wait: &str, bytes: i32, expected: &str| {
        let said = bulk(wait, "", 0, 0, bytes).expect_err(expected);
        assert!(said.contains(expected), "`{expected}` is not in: {said}");
    };
    fails("", 512, "while 1 of its bulk copies are under way");
    // Too many bytes were announced, too few, and another phase is waited for.
    fails("ein_shim_phases_wait(b, 0);", 514, "thread 0 waits for the phase of parity 0 of the barrier at byte 512");
    fails("ein_shim_phases_wait(b, 0); ein_shim_phases_wait(b, 1);", 512, "waits for the phase of parity 1");
    fails("ein_shim_phases_arrive(b, 0);", 512, "has all arrivals already");
    fails("ein_shim_phases_wait(b + 1, 0);", 512, "no barrier of phases was made at byte 520");
    fails("if (threadIdx.x == 0) ein_shim_bulk_copy(&map, s + 64, b, 0, 0, 0, 0);", 512, "to byte 64 of dynamic");
    fails("ein_shim_phases_wait(b, 0); ein_shim_arrive(3, 64);", 512, "32 threads have arrived at barrier 3");
}

#[test]
fn some_arrive_at_a_named_barrier_and_go_on() {
    let text = kernel(
        "__shared__ int a[64]; int t = threadIdx.x; if (t >= 32) { a[t] = t; ein_shim_arrive(1, 64); return; }
         ein_shim_barrier(1, 64); ((int*)out)[t] = a[t + 32];",
    );
    let out = Memory::new(4 * 32);
    run(&text, 1, 64, 0, &out, 0).unwrap();
    assert_eq!(out.read::<i32>().unwrap(), (32..64).collect::<Vec<i32>>());
}
