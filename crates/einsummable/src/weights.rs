//! Weights from safetensors files, read by slice: only the bytes of the region that is asked for, straight
//! into the caller's buffer.

pub mod part;

use ein_ir::dense::Dense;
use ein_ir::dtype::DType;
use ein_ir::graph::{Graph, TensorType};
use ein_ir::op::InputKind;
use ein_ir::region::{Interval, Region, strides};
use part::Part;
use safetensors::tensor::{Dtype, TensorInfo};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Why weights cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum WeightError {
    /// The folder has no weights that can be read.
    #[error("{folder} has neither model.safetensors nor model.safetensors.index.json", folder = folder.display())]
    NoFile {
        /// The folder.
        folder: PathBuf,
    },
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The index names a file that cannot be read.
    #[error("{path}: {source}; the index says that tensor `{tensor}` is in this file", path = path.display())]
    IndexFile {
        /// The file.
        path: PathBuf,
        /// A tensor that should be in it.
        tensor: String,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes of a tensor cannot be read.
    #[error("{path}: tensor `{tensor}` cannot be read: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Why.
        source: std::io::Error,
    },
    /// Two files have one tensor.
    #[error("tensor `{tensor}` is in {first} and in {second}", first = first.display(), second = second.display())]
    Twice {
        /// The tensor.
        tensor: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The file is something else.
    #[error("{path} is not a safetensors file: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file ends before its last tensor does.
    #[error("{path} is cut off: tensor `{tensor}` ends at byte {needs}, the file at {has}", path = path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The first tensor that is not whole.
        tensor: String,
        /// Where it ends.
        needs: u64,
        /// Where the file ends.
        has: u64,
    },
    /// The index names a tensor that its file does not have.
    #[error("{path}: the index says that `{tensor}` is in this file, but it is not", path = path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A tensor that the model needs is not there.
    #[error("{path} has no tensor `{tensor}`{}", hint(near), path = path.display())]
    Missing {
        /// The file, or the folder if there are several.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Tensors with similar names.
        near: Vec<String>,
    },
    /// A tensor has another shape than the model says.
    #[error("{path}: tensor `{tensor}` is {found:?}, but the model needs {expected:?}", path = path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The model's.
        expected: Vec<usize>,
    },
    /// A tensor holds whole numbers where the model computes with fractions.
    #[error(
        "{path}: tensor `{tensor}` is {found}, but the model needs {expected}; quantized weights are not supported",
        path = path.display()
    )]
    Quantized {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: DType,
        /// The model's.
        expected: DType,
    },
    /// A tensor has a type that cannot be read.
    #[error(
        "{path}: tensor `{tensor}` is of type {found}; supported are F64, F32, BF16, F16, I64, I32, U8 and BOOL",
        path = path.display()
    )]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its type.
        found: String,
    },
}

fn hint(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; there is `{}`", near.join("`, `")) }
}

/// Where one tensor lies.
#[derive(Clone, Debug)]
struct Stored {
    file: usize,
    offset: u64,
    dtype: Dtype,
    shape: Vec<usize>,
}

/// Where a parameter lies.
struct Located<'a> {
    stored: &'a Stored,
    dtype: DType,
    part: Option<Part>,
}

/// The tensors of one or several safetensors files. Opening reads the headers only.
#[derive(Debug)]
pub struct Weights {
    files: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, Stored>,
    read: AtomicU64,
}

/// Headers longer than this are not headers; the format's own limit.
const LONGEST_HEADER: u64 = 100_000_000;
/// What the names of a model start with inside a model that has a head.
const PREFIXES: [&str; 6] = ["model.", "bert.", "distilbert.", "roberta.", "transformer.", "vit."];
/// Bytes converted at a time when the file's type is not the model's.
const PIECE: usize = 1 << 20;

impl Weights {
    /// Opens `model.safetensors`, or the files of `model.safetensors.index.json`.
    pub fn open(folder: &Path) -> Result<Self, WeightError> {
        let (one, index) = (folder.join("model.safetensors"), folder.join("model.safetensors.index.json"));
        if index.is_file() {
            Self::open_index(folder, &index)
        } else if one.is_file() {
            Self::open_file(&one)
        } else {
            Err(WeightError::NoFile { folder: folder.into() })
        }
    }

    /// Opens one file.
    pub fn open_file(path: &Path) -> Result<Self, WeightError> {
        let mut weights = Self { files: vec![], tensors: BTreeMap::new(), read: AtomicU64::new(0) };
        weights.add(path)?;
        Ok(weights)
    }

    fn open_index(folder: &Path, path: &Path) -> Result<Self, WeightError> {
        let format = |reason: String| WeightError::Format { path: path.into(), reason };
        let text = std::fs::read_to_string(path).map_err(|source| WeightError::Io { path: path.into(), source })?;
        let value: Value = serde_json::from_str(&text).map_err(|e| format(e.to_string()))?;
        let map = value["weight_map"].as_object().ok_or_else(|| format("it has no `weight_map`".into()))?;
        let mut places: BTreeMap<String, String> = BTreeMap::new();
        for (tensor, file) in map {
            let file = file.as_str().ok_or_else(|| format(format!("the file of `{tensor}` is no text")))?;
            // A name with a folder in it could leave the model's own.
            if Path::new(file).components().count() != 1 || file.starts_with("..") {
                return Err(format(format!("`{file}` is no name of a file in this folder")));
            }
            places.insert(tensor.clone(), file.into());
        }
        let names: BTreeSet<&String> = places.values().collect();
        let mut weights = Self { files: vec![], tensors: BTreeMap::new(), read: AtomicU64::new(0) };
        for name in names {
            weights.add(&folder.join(name)).map_err(|error| match error {
                WeightError::Io { path, source } => {
                    let tensor = places.iter().find(|(_, file)| *file == name).expect("named by one").0.clone();
                    WeightError::IndexFile { path, tensor, source }
                }
                other => other,
            })?;
        }
        for (tensor, file) in &places {
            let stored = weights.tensors.get(tensor).map(|s| &weights.files[s.file].0);
            let path = folder.join(file);
            if stored != Some(&path) {
                return Err(WeightError::Index { path, tensor: tensor.clone() });
            }
        }
        Ok(weights)
    }

    fn add(&mut self, path: &Path) -> Result<(), WeightError> {
        let io = |source| WeightError::Io { path: path.into(), source };
        let format = |reason: String| WeightError::Format { path: path.into(), reason };
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut size = [0; 8];
        if length < 8 {
            return Err(format(format!("it is only {length} bytes long")));
        }
        file.read_exact_at(&mut size, 0).map_err(io)?;
        if size == *b"version " {
            return Err(format("it is a pointer of Git LFS; `git lfs pull` fetches the file itself".into()));
        }
        let header_length = u64::from_le_bytes(size);
        if header_length > LONGEST_HEADER {
            return Err(format(format!("its header would be {header_length} bytes long")));
        }
        if header_length > length - 8 {
            return Err(format(format!(
                "its header would end at byte {}, the file ends at {length}",
                header_length + 8
            )));
        }
        let mut header = vec![0; header_length as usize];
        file.read_exact_at(&mut header, 8).map_err(io)?;
        let rows: BTreeMap<String, Value> = serde_json::from_slice(&header).map_err(|e| format(e.to_string()))?;
        let start = 8 + header_length;
        let mut found: Vec<(u64, u64, String, Stored)> = Vec::new();
        for (name, value) in rows.into_iter().filter(|(name, _)| name != "__metadata__") {
            let info: TensorInfo =
                serde_json::from_value(value).map_err(|e| format(format!("tensor `{name}`: {e}")))?;
            let (from, to) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
            let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |n, &extent| n.checked_mul(extent));
            if bits.is_none_or(|bits| to.checked_sub(from) != Some(bits as u64 / 8)) || to > u64::MAX - start {
                let shape = &info.shape;
                return Err(format(format!("tensor `{name}` of shape {shape:?} is not {from}..{to} bytes long")));
            }
            let stored = Stored { file: self.files.len(), offset: start + from, dtype: info.dtype, shape: info.shape };
            found.push((from, to, name, stored));
        }
        found.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        let mut end = 0;
        for (from, to, name, _) in &found {
            if *from != end {
                return Err(format(format!("tensor `{name}` starts at byte {from} of the data, not at {end}")));
            }
            end = *to;
            if start + end > length {
                return Err(WeightError::Truncated {
                    path: path.into(),
                    tensor: name.clone(),
                    needs: start + end,
                    has: length,
                });
            }
        }
        if start + end != length {
            return Err(format(format!("{} bytes come after its last tensor", length - start - end)));
        }
        for (_, _, name, stored) in found {
            if let Some(other) = self.tensors.get(&name) {
                let first = self.files[other.file].0.clone();
                return Err(WeightError::Twice { tensor: name, first, second: path.into() });
            }
            self.tensors.insert(name, stored);
        }
        self.files.push((path.into(), file));
        Ok(())
    }

    /// Names of the tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.find(name).map(|s| s.shape.as_slice())
    }

    /// Bytes of all tensors in the files.
    pub fn bytes(&self) -> u64 {
        let size = |s: &Stored| s.shape.iter().product::<usize>() as u64 * s.dtype.bitsize() as u64 / 8;
        self.tensors.values().map(size).sum()
    }

    /// Bytes of tensors read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// A tensor by its own name, or with or without the prefix of a model that contains or is contained; and norms by
    /// the names that their parameters had first.
    fn find(&self, name: &str) -> Option<&Stored> {
        let by_prefix = |name: &str| {
            let longer = || PREFIXES.iter().find_map(|p| self.tensors.get(&format!("{p}{name}")));
            let shorter = || PREFIXES.iter().find_map(|p| self.tensors.get(name.strip_prefix(p)?));
            self.tensors.get(name).or_else(longer).or_else(shorter)
        };
        let renamed = |new: &str, old: &str| by_prefix(&format!("{}LayerNorm.{old}", name.strip_suffix(new)?));
        by_prefix(name).or_else(|| renamed("LayerNorm.weight", "gamma")).or_else(|| renamed("LayerNorm.bias", "beta"))
    }

    fn missing(&self, name: &str) -> WeightError {
        let last = name.rsplit('.').take(2).collect::<Vec<_>>();
        let alike = |n: &&String| n.rsplit('.').take(2).eq(last.iter().copied());
        let near = self.tensors.keys().filter(alike).take(3).cloned().collect();
        let path = match self.files.as_slice() {
            [(path, _)] => path.clone(),
            files => files.first().and_then(|f| f.0.parent()).map(Path::to_path_buf).unwrap_or_default(),
        };
        WeightError::Missing { path, tensor: name.into(), near }
    }

    /// Where a parameter lies, and which part of the stored tensor it is.
    fn locate(&self, name: &str, shape: &[usize]) -> Result<Located<'_>, WeightError> {
        let (tensor, part) = Part::parse(name);
        let stored = self.find(tensor).ok_or_else(|| self.missing(tensor))?;
        let path = &self.files[stored.file].0;
        let wrong = |found: Vec<usize>, expected: Vec<usize>| {
            let (path, tensor) = (path.clone(), tensor.to_owned());
            Err(WeightError::Shape { path, tensor, found, expected })
        };
        let mut whole = shape.to_vec();
        match &part {
            None => {}
            Some(Part { axis, range, of }) => match whole.get_mut(*axis) {
                Some(extent) if *extent == range.len() => *extent = *of,
                _ => return wrong(stored.shape.clone(), whole),
            },
        }
        if stored.shape != whole {
            return wrong(stored.shape.clone(), whole);
        }
        let dtype = match stored.dtype {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            Dtype::U8 => DType::U8,
            Dtype::BOOL => DType::Bool,
            other => {
                let found = format!("{other:?}");
                return Err(WeightError::Type { path: path.clone(), tensor: tensor.into(), found });
            }
        };
        Ok(Located { stored, dtype, part })
    }

    /// Checks that every parameter of a graph is there in the right shape, before anything is planned.
    pub fn check(&self, graph: &Graph) -> Result<(), WeightError> {
        for id in graph.inputs(InputKind::Parameter) {
            let node = graph.node(id);
            self.check_tensor(&node.name, &node.ty)?;
        }
        Ok(())
    }

    /// Checks that a tensor is there in the right shape, and that its type can be converted without changing what
    /// it means: whole numbers where the model has fractions are the codes of a quantized model.
    pub fn check_tensor(&self, name: &str, ty: &TensorType) -> Result<(), WeightError> {
        let Located { stored, dtype, .. } = self.locate(name, &ty.shape)?;
        if ty.dtype.is_float() && !dtype.is_float() {
            let path = self.files[stored.file].0.clone();
            return Err(WeightError::Quantized { path, tensor: name.into(), found: dtype, expected: ty.dtype });
        }
        Ok(())
    }

    /// Writes the elements of a region of a tensor to `out`, row-major and little-endian, converted to the
    /// type that is asked for.
    pub fn read(&self, name: &str, ty: &TensorType, region: &Region, out: &mut [u8]) -> Result<(), WeightError> {
        let Located { stored, dtype, part } = self.locate(name, &ty.shape)?;
        assert_eq!(out.len(), region.volume() * ty.dtype.bytes(), "the buffer fits the region");
        let (path, file) = &self.files[stored.file];
        let mut at = 0;
        for (start, length) in runs(&stored.shape, &within(part.as_ref(), region)) {
            // Same type: straight to its place. Another: by way of a small buffer.
            let piece = if dtype == ty.dtype { length } else { PIECE / 8 };
            for first in (0..length).step_by(piece.max(1)) {
                let count = piece.min(length - first);
                let from = stored.offset + ((start + first) * dtype.bytes()) as u64;
                let target = &mut out[at..at + count * ty.dtype.bytes()];
                at += target.len();
                let io = |source| WeightError::Read { path: path.clone(), tensor: name.into(), source };
                if dtype == ty.dtype {
                    file.read_exact_at(target, from).map_err(io)?;
                } else {
                    let mut raw = vec![0; count * dtype.bytes()];
                    file.read_exact_at(&mut raw, from).map_err(io)?;
                    let piece = Dense::from_le_bytes(&TensorType::new(dtype, [count]), &raw).expect("whole elements");
                    target.copy_from_slice(&piece.cast(ty.dtype).to_le_bytes());
                }
                self.read.fetch_add((count * dtype.bytes()) as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// A region of a parameter as one of the stored tensor.
fn within(part: Option<&Part>, region: &Region) -> Region {
    let mut region = region.clone();
    if let Some(part) = part {
        let own = region.0[part.axis];
        region.0[part.axis] = Interval::new(own.lo + part.range.start, own.hi + part.range.start);
    }
    region
}

/// The consecutive elements of a region in a row-major tensor: (first element, number), in order.
fn runs(shape: &[usize], region: &Region) -> Vec<(usize, usize)> {
    if region.is_empty() {
        return vec![];
    }
    // Axes from `inner` on are whole, so one run covers them and the part of the axis before.
    let whole = |axis: &usize| region.0[*axis].len() == shape[*axis];
    let inner = (0..shape.len()).rev().find(|a| !whole(a)).unwrap_or(0);
    let strides = strides(shape);
    let length = region.shape()[inner.min(shape.len())..].iter().product();
    let mut starts = vec![0];
    for (axis, (interval, stride)) in region.0.iter().zip(strides).enumerate() {
        let indices = if axis < inner { interval.lo..interval.hi } else { interval.lo..interval.lo + 1 };
        starts = starts.iter().flat_map(|s| indices.clone().map(move |i| s + i * stride)).collect();
    }
    starts.into_iter().map(|s| (s, length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_possible() {
        let check = |shape: &[usize], region: &[(usize, usize)], expected: &[(usize, usize)]| {
            assert_eq!(runs(shape, &Region::of(region)), expected, "{shape:?} {region:?}");
        };
        check(&[], &[], &[(0, 1)]);
        check(&[4], &[(1, 3)], &[(1, 2)]);
        check(&[4, 5], &[(0, 4), (0, 5)], &[(0, 20)]);
        check(&[4, 5], &[(1, 3), (0, 5)], &[(5, 10)]);
        check(&[4, 5], &[(1, 3), (2, 4)], &[(7, 2), (12, 2)]);
        check(&[2, 3, 4], &[(0, 2), (1, 2), (0, 4)], &[(4, 4), (16, 4)]);
        check(&[2, 3, 4], &[(1, 2), (1, 3), (1, 2)], &[(17, 1), (21, 1)]);
        check(&[2, 3], &[(0, 2), (1, 1)], &[]);
    }
}
