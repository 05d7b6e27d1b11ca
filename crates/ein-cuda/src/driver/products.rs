//! Products of matrices, by the library for them (cuBLASLt).
#![allow(unsafe_code)]

use super::error::DriverError;
use super::{Gpu, Stream};
use crate::compile::folders;
use cudarc::cublaslt::result;
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
    cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, cudaDataType,
};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// Names that the library has, in the order in which they are tried.
const NAMES: [&str; 2] = ["libcublasLt.so.13", "libcublasLt.so.12"];
/// Parts of a product are summed in the type of the accumulator, in a workspace, in order: the same bits every time.
const REDUCTION: u32 = 2;
/// To be a multiple of a higher power of 2 is of no use.
const ALIGNED: u32 = 8;

/// The library on one GPU.
#[derive(Debug)]
pub struct Products {
    gpu: Arc<Gpu>,
    handle: cublasLtHandle_t,
    /// What the library found best for problems so far, where matrices are so aligned.
    known: HashMap<(Problem, [u64; 4]), cublasLtMatmulAlgo_t>,
}

// SAFETY: the handle may be used by any thread, one at a time.
unsafe impl Send for Products {}

/// Types of elements that the library multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// f64.
    F64,
    /// f32.
    F32,
    /// bf16.
    BF16,
    /// f16.
    F16,
}

/// A matrix of a product, row-major: `rows` by `columns`, or stored as its transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Elements.
    pub element: Element,
    /// Elements from one row to the next, or, where it is stored as its transpose, from one column.
    pub stride: u64,
    /// Elements from one matrix of the batch to the next.
    pub batch_stride: u64,
    /// Whether it is stored as its transpose.
    pub transposed: bool,
}

/// `C = f(A B + add + bias)`, with C m by n; the bias is added to every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// A, B and C.
    pub matrices: [Stored; 3],
    /// m, n and k.
    pub extents: [u64; 3],
    /// How many products.
    pub batch: u64,
    /// The matrix that is added, if one is.
    pub add: Option<Stored>,
    /// Whether a vector is added.
    pub bias: bool,
    /// Whether the sum goes through the Gaussian error linear unit, by its hyperbolic tangent.
    pub gelu: bool,
    /// Whether factors of f32 may be rounded to TF32.
    pub tf32: bool,
    /// Bytes of the workspace.
    pub workspace: u64,
}

/// Where a product's memory is.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// A, B and C.
    pub matrices: [u64; 3],
    /// The matrix that is added.
    pub add: Option<u64>,
    /// The vector that is added.
    pub bias: Option<u64>,
    /// The workspace.
    pub workspace: u64,
}

impl Products {
    /// Whether the library is there: where the loader finds it, or in a toolkit or a Python package.
    pub fn are_there() -> bool {
        static THERE: OnceLock<bool> = OnceLock::new();
        // SAFETY: loads a library, which runs its own initialisers.
        let known = || unsafe { sys::is_culib_present() };
        *THERE.get_or_init(|| {
            if known() {
                return true;
            }
            let files = folders().into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
            for file in files.filter(|file| file.is_file()) {
                // SAFETY: as above. It stays: who asks for it by name later gets this one.
                let loaded = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_GLOBAL) };
                loaded.map(std::mem::forget).ok();
            }
            known()
        })
    }

    /// The library on a GPU.
    ///
    /// # Errors
    ///
    /// The library is not there, or does not start.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self, DriverError> {
        if !Self::are_there() {
            return Err(DriverError::NoProducts);
        }
        gpu.bind()?;
        let handle = result::create_handle().map_err(|e| failed("cublasLtCreate", e))?;
        Ok(Self { gpu: gpu.clone(), handle, known: HashMap::new() })
    }

    /// Gives a product to a stream of its GPU.
    pub fn give(&mut self, problem: &Problem, at: &Operands, stream: &Stream) -> Result<(), DriverError> {
        self.gpu.bind()?;
        let described = Described::new(problem, at.bias)?;
        // Without one that is added the result stands in its place, times 0.
        let [a, b, c] = at.matrices;
        let add = at.add.unwrap_or(c);
        // What places are multiples of, as far as that is of use: the second factor is the library's first.
        let aligned = [b, a, add, c].map(|a| 1 << a.trailing_zeros().min(ALIGNED));
        let algorithm = match self.known.entry((*problem, aligned)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(described.algorithm(self.handle, problem.workspace, aligned)?),
        };
        let (one, zero) = ((1.0_f32, 1.0_f64), (0.0_f32, 0.0_f64));
        let wide = problem.matrices[2].element == Element::F64;
        let scalar = |of: &(f32, f64)| -> *const c_void {
            if wide { (&raw const of.1).cast() } else { (&raw const of.0).cast() }
        };
        let [first, second, added, result] = &described.layouts;
        let beta = if at.add.is_some() { &one } else { &zero };
        // SAFETY: what is described lives; the scalars have the scale's type and are read by the call; the memory is
        // what the caller says, in the order in which the row-major product is a column-major one.
        let given = unsafe {
            result::matmul(
                self.handle,
                described.product,
                scalar(&one),
                scalar(beta),
                b as *const c_void,
                first.0,
                a as *const c_void,
                second.0,
                add as *const c_void,
                added.0,
                c as *mut c_void,
                result.0,
                &raw const algorithm,
                at.workspace as *mut c_void,
                problem.workspace as usize,
                stream.handle().cast(),
            )
        };
        given.map_err(|e| failed("cublasLtMatmul", e))
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it is this one's own.
            let _ = unsafe { result::destroy_handle(self.handle) };
        }
    }
}

fn failed(call: &'static str, error: result::CublasError) -> DriverError {
    DriverError::Products { call, reason: error.to_string() }
}

/// A product as the library has it: a row-major matrix is the transpose of a column-major one, so the product is
/// that of the transposes in the other order.
struct Described {
    product: cublasLtMatmulDesc_t,
    /// Of the second factor, the first, what is added and the result.
    layouts: [Layout; 4],
}

impl Described {
    fn new(problem: &Problem, bias: Option<u64>) -> Result<Self, DriverError> {
        let [a, b, c] = &problem.matrices;
        let [m, n, k] = problem.extents;
        let (compute, scale) = match c.element {
            Element::F64 => (cublasComputeType_t::CUBLAS_COMPUTE_64F, cudaDataType::CUDA_R_64F),
            Element::F32 if problem.tf32 && a.element == Element::F32 => {
                (cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, cudaDataType::CUDA_R_32F)
            }
            Element::F32 | Element::BF16 | Element::F16 => {
                (cublasComputeType_t::CUBLAS_COMPUTE_32F, cudaDataType::CUDA_R_32F)
            }
        };
        let layouts = [
            Layout::new(b, [k, n], problem.batch)?,
            Layout::new(a, [m, k], problem.batch)?,
            Layout::new(problem.add.as_ref().unwrap_or(c), [m, n], problem.batch)?,
            Layout::new(c, [m, n], problem.batch)?,
        ];
        let product = result::create_matmul_desc(compute, scale).map_err(|e| failed("cublasLtMatmulDescCreate", e))?;
        let described = Self { product, layouts };
        // `CUBLAS_OP_N` and `CUBLAS_OP_T`.
        let operation = |m: &Stored| i32::from(m.transposed);
        described.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA, &operation(b))?;
        described.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB, &operation(a))?;
        let epilogue = match (bias, problem.gelu) {
            (None, false) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
            (Some(_), false) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            (None, true) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU,
            (Some(_), true) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS,
        };
        described.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        if let Some(bias) = bias {
            described.set(cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        Ok(described)
    }

    fn set<T>(&self, attribute: cublasLtMatmulDescAttributes_t, value: &T) -> Result<(), DriverError> {
        // SAFETY: it lives; the value has the attribute's type and is copied.
        let set = unsafe {
            result::set_matmul_desc_attribute(self.product, attribute, (&raw const *value).cast(), size_of::<T>())
        };
        set.map_err(|e| failed("cublasLtMatmulDescSetAttribute", e))
    }

    /// What the library thinks best, of what is deterministic and content with this workspace and alignment.
    fn algorithm(
        &self,
        handle: cublasLtHandle_t,
        workspace: u64,
        aligned: [u64; 4],
    ) -> Result<cublasLtMatmulAlgo_t, DriverError> {
        use cublasLtMatmulPreferenceAttributes_t as Attribute;
        let wishes = Wishes::new()?;
        wishes.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace)?;
        wishes.set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &REDUCTION)?;
        let [first, second, added, result] = aligned.map(|a| a as u32);
        wishes.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first)?;
        wishes.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second)?;
        wishes.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &added)?;
        wishes.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &result)?;
        let [first, second, added, result] = &self.layouts;
        // SAFETY: all of it lives.
        let found = unsafe {
            result::get_matmul_algo_heuristic(handle, self.product, first.0, second.0, added.0, result.0, wishes.0)
        };
        Ok(found.map_err(|e| failed("cublasLtMatmulAlgoGetHeuristic", e))?.algo)
    }
}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        let _ = unsafe { result::destroy_matmul_desc(self.product) };
    }
}

/// A number that the library has 32 bits for.
fn small(what: &'static str, value: u64) -> Result<i32, DriverError> {
    i32::try_from(value).map_err(|_| DriverError::Product { what, value })
}

/// How a matrix lies in memory.
struct Layout(cublasLtMatrixLayout_t);

impl Layout {
    /// Of a row-major matrix of these extents, column-major: its transpose.
    fn new(matrix: &Stored, [rows, columns]: [u64; 2], batch: u64) -> Result<Self, DriverError> {
        use cublasLtMatrixLayoutAttribute_t as Attribute;
        let element = match matrix.element {
            Element::F64 => cudaDataType::CUDA_R_64F,
            Element::F32 => cudaDataType::CUDA_R_32F,
            Element::BF16 => cudaDataType::CUDA_R_16BF,
            Element::F16 => cudaDataType::CUDA_R_16F,
        };
        let (inner, outer) = if matrix.transposed { (rows, columns) } else { (columns, rows) };
        // One line has no next, and the library wants the step to it to be no less than a line.
        let step = i64::from(small("a step between rows", matrix.stride.max(inner))?);
        small("rows or columns", inner.max(outer))?;
        let count = small("a batch", batch)?;
        let layout = result::create_matrix_layout(element, inner, outer, step);
        let layout = Self(layout.map_err(|e| failed("cublasLtMatrixLayoutCreate", e))?);
        if batch > 1 {
            layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count)?;
            layout.set(Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &(matrix.batch_stride as i64))?;
        }
        Ok(layout)
    }

    fn set<T>(&self, attribute: cublasLtMatrixLayoutAttribute_t, value: &T) -> Result<(), DriverError> {
        // SAFETY: it lives; the value has the attribute's type and is copied.
        let set = unsafe {
            result::set_matrix_layout_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>())
        };
        set.map_err(|e| failed("cublasLtMatrixLayoutSetAttribute", e))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// What is asked of an algorithm.
struct Wishes(cublasLtMatmulPreference_t);

impl Wishes {
    fn new() -> Result<Self, DriverError> {
        result::create_matmul_pref().map(Self).map_err(|e| failed("cublasLtMatmulPreferenceCreate", e))
    }

    fn set<T>(&self, attribute: cublasLtMatmulPreferenceAttributes_t, value: &T) -> Result<(), DriverError> {
        // SAFETY: it lives; the value has the attribute's type and is copied.
        let set =
            unsafe { result::set_matmul_pref_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>()) };
        set.map_err(|e| failed("cublasLtMatmulPreferenceSetAttribute", e))
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wraps() {
        assert_eq!(small("a batch", (1 << 31) - 1), Ok(i32::MAX));
        let (what, value) = ("a batch", (1 << 32) + 5);
        assert_eq!(small(what, value), Err(DriverError::Product { what, value }));
    }
}
