//! `libcublasLt.so.13`: products of matrices.

// C functions with pointers from the caller: places for what is asked, by the functions' contracts.
#![allow(unsafe_code, non_snake_case)]

use crate::driver::{current, find, give};
use crate::limits;
use crate::matmul::{Arithmetic, Kind, Layout, Product};
use crate::stubs_ffi::{Symbol, symbols};
use crate::work::{Node, Work};
use crate::world::world;
use cudarc::cublaslt::sys::{cublasLtMatmulHeuristicResult_t, cublasStatus_t};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn symbols() -> Vec<Symbol> {
    symbols![
        cublasLtCreate,
        cublasLtDestroy,
        cublasLtGetVersion,
        cublasLtGetStatusString,
        cublasLtGetStatusName,
        cublasLtMatmulDescCreate,
        cublasLtMatmulDescDestroy,
        cublasLtMatmulDescSetAttribute,
        cublasLtMatrixLayoutCreate,
        cublasLtMatrixLayoutDestroy,
        cublasLtMatrixLayoutSetAttribute,
        cublasLtMatmulPreferenceCreate,
        cublasLtMatmulPreferenceDestroy,
        cublasLtMatmulPreferenceSetAttribute,
        cublasLtMatmulAlgoGetHeuristic,
        cublasLtMatmul
    ]
}

const NOT_INITIALIZED: u32 = 1;
const INVALID_VALUE: u32 = 7;
const EXECUTION_FAILED: u32 = 13;
const NOT_SUPPORTED: u32 = 15;
/// `CUBLAS_COMPUTE_32F_FAST_TF32`.
const TF32: u32 = 77;

/// What algorithms of the fake need.
const WORKSPACE: usize = 1024;
/// What an algorithm counts on where a preference says nothing: addresses divisible by so much.
const ALIGNMENT: u64 = 256;
/// Products of one call, at most.
const BATCH: i32 = 65_535;
/// By these an algorithm of the fake is known.
const MARK: u64 = 0x65_696e_2d66_616b;

#[derive(Clone, Copy, Default)]
struct Desc {
    compute: u32,
    scale: u32,
    transa: u32,
    transb: u32,
    epilogue: u32,
    bias: u64,
    bias_kind: Option<u32>,
    device_scalars: bool,
}

#[derive(Clone, Copy, Default)]
struct Matrix {
    kind: u32,
    rows: u64,
    columns: u64,
    ld: i64,
    row_major: bool,
    count: i32,
    stride: i64,
}

#[derive(Clone, Copy)]
struct Preference {
    workspace: u64,
    alignment: [u64; 4],
}

#[derive(Clone, Copy)]
enum Object {
    Handle,
    Desc(Desc),
    Matrix(Matrix),
    Preference(Preference),
}

static OBJECTS: Mutex<(usize, BTreeMap<usize, Object>)> = Mutex::new((0x1000, BTreeMap::new()));

fn objects() -> MutexGuard<'static, (usize, BTreeMap<usize, Object>)> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn new(out: *mut usize, object: Object) -> u32 {
    if out.is_null() {
        return INVALID_VALUE;
    }
    let mut objects = objects();
    objects.0 += 16;
    let handle = objects.0;
    objects.1.insert(handle, object);
    // SAFETY: a place for a handle.
    unsafe { out.write(handle) };
    0
}

fn destroy(handle: usize) -> u32 {
    if objects().1.remove(&handle).is_some() { 0 } else { INVALID_VALUE }
}

fn desc(handle: usize) -> Result<Desc, u32> {
    match objects().1.get(&handle) {
        Some(Object::Desc(d)) => Ok(*d),
        _ => Err(INVALID_VALUE),
    }
}

fn matrix(handle: usize) -> Result<Matrix, u32> {
    match objects().1.get(&handle) {
        Some(Object::Matrix(m)) => Ok(*m),
        _ => Err(INVALID_VALUE),
    }
}

/// A value of an attribute, as an integer of its size.
fn value(buffer: *const c_void, size: usize) -> Result<u64, u32> {
    let mut bytes = [0u8; 8];
    if buffer.is_null() || !matches!(size, 4 | 8) {
        return Err(INVALID_VALUE);
    }
    // SAFETY: as many bytes as the caller says.
    unsafe { buffer.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), size) };
    Ok(u64::from_le_bytes(bytes))
}

fn code(result: Result<(), u32>) -> u32 {
    result.map_or_else(|c| c, |()| 0)
}

extern "C" fn cublasLtCreate(out: *mut usize) -> u32 {
    match world().as_ref().map(current) {
        Some(Ok(_)) => {}
        _ => return NOT_INITIALIZED,
    }
    new(out, Object::Handle)
}

extern "C" fn cublasLtDestroy(handle: usize) -> u32 {
    if let Some(world) = world().as_mut() {
        let uses = |node: &Node| matches!(&node.work, Work::Product(p) if p.handle == handle);
        if world.execs.values().any(|exec| exec.plan.nodes.iter().any(|node| uses(node))) {
            world.tell(
                "a handle of the library of products is destroyed before a graph that was captured with it".into(),
            );
        }
    }
    destroy(handle)
}

extern "C" fn cublasLtGetVersion() -> usize {
    130_000
}

extern "C" fn cublasLtGetStatusString(status: u32) -> *const c_char {
    cublasLtGetStatusName(status)
}

extern "C" fn cublasLtGetStatusName(status: u32) -> *const c_char {
    let text = match status {
        0 => c"CUBLAS_STATUS_SUCCESS",
        NOT_INITIALIZED => c"CUBLAS_STATUS_NOT_INITIALIZED",
        INVALID_VALUE => c"CUBLAS_STATUS_INVALID_VALUE",
        EXECUTION_FAILED => c"CUBLAS_STATUS_EXECUTION_FAILED",
        NOT_SUPPORTED => c"CUBLAS_STATUS_NOT_SUPPORTED",
        _ => c"<unknown>",
    };
    text.as_ptr()
}

extern "C" fn cublasLtMatmulDescCreate(out: *mut usize, compute: u32, scale: u32) -> u32 {
    new(out, Object::Desc(Desc { compute, scale, epilogue: 1, ..Desc::default() }))
}

extern "C" fn cublasLtMatmulDescDestroy(handle: usize) -> u32 {
    destroy(handle)
}

extern "C" fn cublasLtMatmulDescSetAttribute(handle: usize, attribute: u32, buffer: *const c_void, size: usize) -> u32 {
    code(value(buffer, size).and_then(|v| {
        let mut objects = objects();
        let Some(Object::Desc(d)) = objects.1.get_mut(&handle) else { return Err(INVALID_VALUE) };
        match attribute {
            0 => d.compute = v as u32,
            1 => d.scale = v as u32,
            2 => d.device_scalars = v != 0,
            3 => d.transa = v as u32,
            4 => d.transb = v as u32,
            5 if v == 0 => {}
            7 => d.epilogue = v as u32,
            8 => d.bias = v,
            26 => d.bias_kind = Some(v as u32),
            _ => return Err(NOT_SUPPORTED),
        }
        Ok(())
    }))
}

extern "C" fn cublasLtMatrixLayoutCreate(out: *mut usize, kind: u32, rows: u64, columns: u64, ld: i64) -> u32 {
    new(out, Object::Matrix(Matrix { kind, rows, columns, ld, row_major: false, count: 1, stride: 0 }))
}

extern "C" fn cublasLtMatrixLayoutDestroy(handle: usize) -> u32 {
    destroy(handle)
}

extern "C" fn cublasLtMatrixLayoutSetAttribute(
    handle: usize,
    attribute: u32,
    buffer: *const c_void,
    size: usize,
) -> u32 {
    code(value(buffer, size).and_then(|v| {
        let mut objects = objects();
        let Some(Object::Matrix(m)) = objects.1.get_mut(&handle) else { return Err(INVALID_VALUE) };
        match attribute {
            0 => m.kind = v as u32,
            1 if v <= 1 => m.row_major = v == 1,
            2 => m.rows = v,
            3 => m.columns = v,
            4 => m.ld = v as i64,
            5 => m.count = v as i32,
            6 => m.stride = v as i64,
            _ => return Err(NOT_SUPPORTED),
        }
        Ok(())
    }))
}

extern "C" fn cublasLtMatmulPreferenceCreate(out: *mut usize) -> u32 {
    new(out, Object::Preference(Preference { workspace: 0, alignment: [ALIGNMENT; 4] }))
}

extern "C" fn cublasLtMatmulPreferenceDestroy(handle: usize) -> u32 {
    destroy(handle)
}

extern "C" fn cublasLtMatmulPreferenceSetAttribute(
    handle: usize,
    attribute: u32,
    buffer: *const c_void,
    size: usize,
) -> u32 {
    code(value(buffer, size).and_then(|v| {
        let mut objects = objects();
        let Some(Object::Preference(p)) = objects.1.get_mut(&handle) else { return Err(INVALID_VALUE) };
        match attribute {
            1 => p.workspace = v,
            5..=8 => p.alignment[attribute as usize - 5] = v,
            _ => {}
        }
        Ok(())
    }))
}

fn layout(m: &Matrix, at: u64) -> Result<Layout, u32> {
    let kind = Kind::new(m.kind).ok_or(NOT_SUPPORTED)?;
    let line = if m.row_major { m.columns } else { m.rows };
    if m.rows == 0
        || m.columns == 0
        || m.ld < line as i64
        || m.count < 1
        || m.stride < 0
        || !at.is_multiple_of(kind.bytes())
    {
        return Err(INVALID_VALUE);
    }
    let (row, column) = if m.row_major { (m.ld as u64, 1) } else { (1, m.ld as u64) };
    Ok(Layout { kind, at, rows: m.rows, columns: m.columns, row, column, batch: m.stride as u64 })
}

/// The product that all these say, or why there is none.
fn product(handle: usize, op: &Desc, matrices: [&Matrix; 4], at: [u64; 4]) -> Result<Product, u32> {
    let [a, b, c, d] = matrices;
    let turned = |l: Layout, turn: u32| if turn == 0 { l } else { l.transposed() };
    let (left, right) = (turned(layout(a, at[0])?, op.transa), turned(layout(b, at[1])?, op.transb));
    let (add, out) = (layout(c, at[2])?, layout(d, at[3])?);
    let same = left.rows == out.rows && right.columns == out.columns && left.columns == right.rows;
    if !same || add.rows != out.rows || add.columns != out.columns {
        return Err(INVALID_VALUE);
    }
    if [b, c, d].iter().any(|m| m.count != a.count) || d.count > 1 && d.stride == 0 || c.row_major != d.row_major {
        return Err(INVALID_VALUE);
    }
    if a.count > BATCH {
        return Err(NOT_SUPPORTED);
    }
    // What is the same matrix lies the same way.
    if at[2] == at[3] && at[3] != 0 && (c.ld != d.ld || c.stride != d.stride) {
        return Err(INVALID_VALUE);
    }
    let double = matches!(op.compute, 70 | 71);
    let single = matches!(op.compute, 68 | 69 | 74 | 75 | 77);
    let kinds = [left.kind, right.kind, add.kind, out.kind];
    let fits = if double { kinds.iter().all(|&k| k == Kind::F64) } else { kinds.iter().all(|&k| k != Kind::F64) };
    // The library takes both factors of one type, and gives that or f32.
    let pair = left.kind == right.kind && add.kind == out.kind && (out.kind == left.kind || out.kind == Kind::F32);
    if !(double || single) || !fits || !pair || op.scale != u32::from(double) || op.device_scalars {
        return Err(NOT_SUPPORTED);
    }
    let (relu, gelu, biased) = match op.epilogue {
        1 => (false, false, false),
        2 => (true, false, false),
        4 => (false, false, true),
        6 => (true, false, true),
        32 => (false, true, false),
        36 => (false, true, true),
        _ => return Err(NOT_SUPPORTED),
    };
    // Sums of f64 have no epilogue, and results whose rows are consecutive have none either.
    if op.epilogue != 1 && (double || d.row_major) {
        return Err(NOT_SUPPORTED);
    }
    let bias_kind = match op.bias_kind {
        Some(k) => Kind::new(k).ok_or(NOT_SUPPORTED)?,
        None => out.kind,
    };
    // A vector has the type of the result.
    if biased && bias_kind != out.kind {
        return Err(NOT_SUPPORTED);
    }
    let (alpha, beta, workspace) = (1.0, 0.0, 0..0);
    let bias = biased.then_some((op.bias, bias_kind));
    let count = a.count as u64;
    let arithmetic = match left.kind {
        Kind::F64 => Arithmetic::Double,
        Kind::F32 if op.compute == TF32 => Arithmetic::Tf32,
        Kind::F32 => Arithmetic::Single,
        Kind::F16 | Kind::BF16 => Arithmetic::Half,
    };
    Ok(Product {
        handle,
        a: left,
        b: right,
        c: add,
        d: out,
        count,
        alpha,
        beta,
        double,
        arithmetic,
        bias,
        relu,
        gelu,
        workspace,
    })
}

extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    handle: usize,
    op: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    preference: usize,
    wanted: c_int,
    results: *mut cublasLtMatmulHeuristicResult_t,
    found: *mut c_int,
) -> u32 {
    let get = || {
        let (op, a, b, c, d) = (desc(op)?, matrix(a)?, matrix(b)?, matrix(c)?, matrix(d)?);
        let preference = match objects().1.get(&preference) {
            Some(Object::Preference(p)) => *p,
            _ => return Err(INVALID_VALUE),
        };
        if wanted < 1 || results.is_null() || found.is_null() {
            return Err(INVALID_VALUE);
        }
        product(handle, &op, [&a, &b, &c, &d], [0; 4])?;
        let workspace = WORKSPACE.min(preference.workspace as usize);
        // SAFETY: a place for at least one result, which may be all zeros, and one for their number.
        unsafe {
            results.cast::<u8>().write_bytes(0, size_of::<cublasLtMatmulHeuristicResult_t>());
            let [a, b, c, d] = preference.alignment;
            (*results).algo.data = [MARK, workspace as u64, a, b, c, d, 0, 0];
            (*results).workspaceSize = workspace;
            (*results).state = cublasStatus_t::CUBLAS_STATUS_SUCCESS;
            (*results).wavesCount = 1.0;
            found.write(1);
        }
        if let Some(w) = world().as_mut() {
            w.counters.heuristics += 1;
        }
        Ok(())
    };
    code(get())
}

extern "C" fn cublasLtMatmul(
    handle: usize,
    op: usize,
    alpha: *const c_void,
    a: u64,
    a_of: usize,
    b: u64,
    b_of: usize,
    beta: *const c_void,
    c: u64,
    c_of: usize,
    d: u64,
    d_of: usize,
    algorithm: *const [u64; 8],
    workspace: u64,
    workspace_bytes: usize,
    stream: usize,
) -> u32 {
    let run = || {
        if !objects().1.contains_key(&handle) {
            return Err(NOT_INITIALIZED);
        }
        let matrices = [matrix(a_of)?, matrix(b_of)?, matrix(c_of)?, matrix(d_of)?];
        let op = desc(op)?;
        let [ma, mb, mc, md] = &matrices;
        let mut product = product(handle, &op, [ma, mb, mc, md], [a, b, c, d])?;
        let scalar = |p: *const c_void| {
            // SAFETY: the address of a number of the type of the scalars.
            unsafe { if product.double { p.cast::<f64>().read() } else { f64::from(p.cast::<f32>().read()) } }
        };
        (product.alpha, product.beta) = (scalar(alpha), scalar(beta));
        if product.bias.is_some_and(|b| b.0 == 0) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: an algorithm, or none.
        if let Some(algorithm) = unsafe { algorithm.as_ref() } {
            if algorithm[0] != MARK || (workspace_bytes as u64) < algorithm[1] {
                return Err(INVALID_VALUE);
            }
            // What an algorithm counts on has to hold.
            if [a, b, c, d].iter().zip(&algorithm[2..6]).any(|(at, by)| at % (*by).max(1) != 0) {
                return Err(NOT_SUPPORTED);
            }
            product.workspace = workspace..workspace + algorithm[1];
        }
        let mut world = world();
        let world = world.as_mut().ok_or(NOT_INITIALIZED)?;
        if product.overlaps() {
            world.tell(format!(
                "a product ({product}) writes what it reads: results overlap a factor, or what is added"
            ));
        }
        let used = Some(product.workspace.start).filter(|_| !product.workspace.is_empty());
        limits::product(used, product.bias.map(|bias| bias.0)).map_err(|text| {
            world.refuse(&format!("product {product}"), &text);
            NOT_SUPPORTED
        })?;
        let failed = |_| EXECUTION_FAILED;
        let gpu = world.streams[&find(world, stream).map_err(failed)?].gpu;
        give(world, stream, Node { gpu, work: Work::Product(Box::new(product)) }).map_err(failed)
    };
    code(run())
}
