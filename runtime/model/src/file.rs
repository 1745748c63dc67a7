//! A model file: GGUF, read with care. What it says about itself is checked here, so that the rooms behind
//! this one can rely on it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::Device;
use candle_core::quantized::gguf_file::{Content, TensorInfo, Value};
use candle_core::quantized::{QStorage, QTensor};

use crate::error::{ModelError, Result};

/// What may be asked of a model at most: a file that wants more is not believed.
const MOST_LAYERS: usize = 512;
const MOST_WIDTH: usize = 1 << 17;
const MOST_TOKENS: usize = 1 << 21;
/// Bytes of a header. Those of the largest vocabularies have a quarter; in memory it takes many times as much.
const MOST_HEADER: u64 = 64 << 20;

/// How positions enter a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rotation {
    /// Two numbers that are neighbours turn together.
    Neighbours,
    /// The first half turns with the second.
    Halves,
}

/// The numbers of a network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) layers: usize,
    pub(crate) width: usize,
    pub(crate) inner: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_width: usize,
    pub(crate) vocabulary: usize,
    pub(crate) context: usize,
    pub(crate) epsilon: f32,
    pub(crate) rope_base: f32,
    pub(crate) rope_width: usize,
    /// Positions are divided by this.
    pub(crate) rope_scale: f32,
    pub(crate) rotation: Rotation,
}

/// A model file that was opened and whose header makes sense.
pub struct ModelFile {
    path: PathBuf,
    content: Content,
    pub(crate) shape: Shape,
    size: u64,
}

impl std::fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelFile").field("path", &self.path).field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl ModelFile {
    /// Reads the header of the file at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let absent = |source| {
            ModelError::not_found(format!("the model file {} cannot be opened", path.display()))
                .hint("check its path; `herm models list` shows the models of this machine")
                .because(source)
        };
        let stranger = || {
            ModelError::invalid(format!("{} is not a GGUF model file", path.display()))
                .hint("local models are GGUF files, such as SmolLM2-135M-Instruct.Q4_1.gguf")
        };
        // Looked at first: opening a pipe waits for a process that writes to it.
        if !path.metadata().map_err(absent)?.is_file() {
            return Err(stranger());
        }
        let file = File::open(path).map_err(absent)?;
        let size = file.metadata().map(|about| about.len()).unwrap_or_default();
        let mut reader = Header { file: BufReader::with_capacity(1 << 16, file), left: MOST_HEADER };
        let mut magic = [0; 4];
        if reader.read_exact(&mut magic).is_err() || &magic != b"GGUF" {
            return Err(stranger());
        }
        // The reader is a stranger's and the file may be anyone's: a panic in there is a bad file.
        let read = std::panic::catch_unwind(move || {
            reader.seek(SeekFrom::Start(0)).map_err(candle_core::Error::from)?;
            Content::read(&mut reader)
        });
        let content = match read {
            Ok(Ok(content)) => content,
            Ok(Err(source)) => return Err(broken(path, &said(&source))),
            Err(_) => return Err(broken(path, "its header cannot be read")),
        };
        let shape = shape(path, &content)?;
        let file = Self { path: path.to_owned(), content, shape, size };
        file.check_extents()?;
        Ok(file)
    }

    /// The path the file was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name of its file; what its maker calls it, where the path has none.
    pub fn name(&self) -> String {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.or_else(|| self.text("general.name").map(str::to_owned)).unwrap_or_else(|| "a local model".to_owned())
    }

    /// What it says under a key, where that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        text(&self.content, key)
    }

    /// What it says under a key, where that is a whole number.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        number(&self.content, key)
    }

    /// What it says under a key, where that is yes or no.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.content.metadata.get(key) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// What it lists under a key.
    pub(crate) fn list(&self, key: &str) -> Option<&[Value]> {
        match self.content.metadata.get(key) {
            Some(Value::Array(values)) => Some(values),
            _ => None,
        }
    }

    /// Tokens a conversation can have.
    pub fn context(&self) -> usize {
        self.shape.context
    }

    /// How many weights there are.
    pub fn parameters(&self) -> u64 {
        self.content.tensor_infos.values().map(|info| info.shape.dims().iter().product::<usize>() as u64).sum()
    }

    /// The bytes the weights take once they are loaded.
    pub fn loaded_bytes(&self) -> u64 {
        self.parameters() + self.parameters() / 8
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.content.tensor_infos.contains_key(tensor)
    }

    fn broken(&self, why: &str) -> ModelError {
        broken(&self.path, why)
    }

    /// Every tensor lies inside the file, and no two share their bytes: a small file makes no large network.
    fn check_extents(&self) -> Result<()> {
        let mut all = 0u64;
        for (name, info) in &self.content.tensor_infos {
            let count = info.shape.dims().iter().try_fold(1usize, |all, dim| all.checked_mul(*dim));
            let bytes = count
                .filter(|count| count.is_multiple_of(info.ggml_dtype.block_size()))
                .and_then(|count| (count / info.ggml_dtype.block_size()).checked_mul(info.ggml_dtype.type_size()));
            let end = bytes.and_then(|bytes| {
                (bytes as u64).checked_add(info.offset)?.checked_add(self.content.tensor_data_offset)
            });
            match end {
                Some(end) if end <= self.size => all = all.saturating_add(bytes.unwrap_or_default() as u64),
                Some(end) => {
                    return Err(self
                        .broken(&format!("it ends at byte {} where {name} goes on to {end}", self.size))
                        .hint("the file was cut short: fetch it again"));
                }
                None => return Err(self.broken(&format!("the size of {name} makes no sense"))),
            }
        }
        match all <= self.size {
            true => Ok(()),
            false => Err(self.broken("its tensors lie on top of each other")),
        }
    }

    /// A tensor, which must have these dimensions.
    fn tensor(&self, name: &str, (rows, columns): (usize, usize)) -> Result<&TensorInfo> {
        let info = self.content.tensor_infos.get(name).ok_or_else(|| self.broken(&format!("it has no {name}")))?;
        let dims = info.shape.dims();
        let fits = match dims {
            [one] => rows == 1 && *one == columns,
            [r, c] => (*r, *c) == (rows, columns),
            _ => false,
        };
        match fits {
            true => Ok(info),
            false => Err(self.broken(&format!("{name} is {dims:?} where {rows} × {columns} are needed"))),
        }
    }

    /// Refuses a tensor that is not there with these dimensions, before room is made for it.
    pub(crate) fn check_tensor(&self, name: &str, dimensions: (usize, usize)) -> Result<()> {
        self.tensor(name, dimensions).map(drop)
    }

    /// The numbers of a tensor with these dimensions, a piece of whole rows at a time.
    pub(crate) fn rows(
        &self,
        name: &str,
        (rows, columns): (usize, usize),
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let info = self.tensor(name, (rows, columns))?;
        let dtype = info.ggml_dtype;
        if !columns.is_multiple_of(dtype.block_size()) {
            return Err(self.broken(&format!("rows of {name} are not whole blocks of {dtype:?}")));
        }
        let row_bytes = columns / dtype.block_size() * dtype.type_size();
        // Whole tiles of rows, about a megabyte of numbers.
        let at_once = ((1usize << 18) / columns).max(1).next_multiple_of(8).min(rows.next_multiple_of(8));
        let mut file = File::open(&self.path).map_err(|source| self.broken("it is gone").because(source))?;
        file.seek(SeekFrom::Start(self.content.tensor_data_offset + info.offset))
            .map_err(|source| self.broken("it cannot be read").because(source))?;
        let mut bytes = vec![0; at_once * row_bytes];
        let mut row = 0;
        while row < rows {
            let count = at_once.min(rows - row);
            let piece = bytes.get_mut(..count * row_bytes).unwrap_or_default();
            file.read_exact(piece).map_err(|source| self.broken("it cannot be read to its end").because(source))?;
            let numbers = QStorage::from_data((&*piece).into(), &Device::Cpu, dtype)
                .and_then(|storage| QTensor::new(storage, (count, columns)))
                .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>())
                .map_err(|source| self.broken(&format!("{name} cannot be unpacked: {}", said(&source))))?;
            if !numbers.iter().all(|number| number.is_finite()) {
                return Err(self.broken(&format!("{name} holds what are no numbers")));
            }
            take(row, &numbers);
            row += count;
        }
        Ok(())
    }

    /// A tensor of one row.
    pub(crate) fn row(&self, name: &str, columns: usize) -> Result<Vec<f32>> {
        let mut found = Vec::with_capacity(columns);
        self.rows(name, (1, columns), |_, numbers| found.extend_from_slice(numbers))?;
        Ok(found)
    }
}

/// Reads the beginning of a file, and no more than a header can have.
struct Header {
    file: BufReader<File>,
    left: u64,
}

impl Read for Header {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(into)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "its header is too long"))?;
        Ok(count)
    }
}

impl Seek for Header {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        self.file.stream_position()
    }
}

fn broken(path: &Path, why: &str) -> ModelError {
    ModelError::corrupt(format!("the model file {} is broken: {why}", path.display())).hint("fetch it again")
}

/// What the reader says, in one line: where backtraces are wanted it brings them along.
fn said(source: &candle_core::Error) -> String {
    let all = source.to_string();
    all.lines().next().map(|line| line.trim_start_matches("gguf: ").to_owned()).unwrap_or_default()
}

fn text<'c>(content: &'c Content, key: &str) -> Option<&'c str> {
    match content.metadata.get(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

pub(crate) fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::U8(n) => Some(u64::from(*n)),
        Value::U16(n) => Some(u64::from(*n)),
        Value::U32(n) => Some(u64::from(*n)),
        Value::U64(n) => Some(*n),
        Value::I8(n) => u64::try_from(*n).ok(),
        Value::I16(n) => u64::try_from(*n).ok(),
        Value::I32(n) => u64::try_from(*n).ok(),
        Value::I64(n) => u64::try_from(*n).ok(),
        _ => None,
    }
}

fn number(content: &Content, key: &str) -> Option<u64> {
    content.metadata.get(key).and_then(whole)
}

fn fraction(content: &Content, key: &str) -> Option<f32> {
    match content.metadata.get(key) {
        Some(Value::F32(n)) => Some(*n),
        #[expect(clippy::cast_possible_truncation, reason = "the network counts in f32")]
        Some(Value::F64(n)) => Some(*n as f32),
        _ => None,
    }
}

fn shape(path: &Path, content: &Content) -> Result<Shape> {
    let family = text(content, "general.architecture").unwrap_or_default();
    let rotation = match family {
        "llama" => Rotation::Neighbours,
        "qwen2" | "qwen3" => Rotation::Halves,
        other => {
            let message = format!("{} is a model of the family {other:?}, which is not known here", path.display());
            return Err(ModelError::invalid(message)
                .hint("families that work: llama (also SmolLM2, Mistral), qwen2, qwen3; or serve it with llama.cpp"));
        }
    };
    if number(content, &format!("{family}.expert_count")).is_some_and(|experts| experts > 0) {
        return Err(ModelError::invalid(format!(
            "{} is a mixture of experts, which is not known here",
            path.display()
        ))
        .hint("use a dense model, or serve this one with llama.cpp and the `openai` backend"));
    }
    let asked = |key: &str| number(content, &format!("{family}.{key}")).and_then(|n| usize::try_from(n).ok());
    let need = |key: &str| asked(key).ok_or_else(|| broken(path, &format!("it does not say its {family}.{key}")));
    let heads = need("attention.head_count")?;
    let width = need("embedding_length")?;
    let head_width = asked("attention.key_length").unwrap_or_else(|| width.checked_div(heads).unwrap_or(0));
    let vocabulary = content
        .tensor_infos
        .get("token_embd.weight")
        .and_then(|info| info.shape.dims().first().copied())
        .ok_or_else(|| broken(path, "it has no token_embd.weight"))?;
    let window = asked("attention.sliding_window").filter(|window| *window > 0).unwrap_or(usize::MAX);
    let rope_scale = match text(content, &format!("{family}.rope.scaling.type")) {
        None | Some("none" | "") => 1.0,
        Some("linear") => fraction(content, &format!("{family}.rope.scaling.factor")).unwrap_or(1.0),
        Some(other) => {
            return Err(ModelError::invalid(format!(
                "{} stretches its context by {other:?}, not known here",
                path.display()
            ))
            .hint("use a file without it, or serve this one with llama.cpp and the `openai` backend"));
        }
    };
    let shape = Shape {
        layers: need("block_count")?,
        width,
        inner: need("feed_forward_length")?,
        heads,
        kv_heads: asked("attention.head_count_kv").unwrap_or(heads),
        head_width,
        vocabulary,
        context: need("context_length")?.min(window),
        epsilon: fraction(content, &format!("{family}.attention.layer_norm_rms_epsilon")).unwrap_or(1e-5),
        rope_base: fraction(content, &format!("{family}.rope.freq_base")).unwrap_or(10_000.0),
        rope_width: asked("rope.dimension_count").unwrap_or(head_width),
        rope_scale,
        rotation,
    };
    let sane = (1..=MOST_LAYERS).contains(&shape.layers)
        && [shape.width, shape.inner, shape.heads, shape.kv_heads, shape.head_width, shape.context]
            .iter()
            .all(|n| (1..=MOST_TOKENS).contains(n))
        && [shape.width, shape.inner, shape.heads * shape.head_width].iter().all(|n| *n <= MOST_WIDTH)
        && (1..=MOST_TOKENS).contains(&shape.vocabulary)
        && shape.heads.is_multiple_of(shape.kv_heads)
        && shape.head_width.is_multiple_of(2)
        && shape.rope_width.is_multiple_of(2)
        && shape.rope_width <= shape.head_width
        && [shape.epsilon, shape.rope_base, shape.rope_scale].iter().all(|n| n.is_finite() && *n > 0.0);
    match sane {
        true => Ok(shape),
        false => Err(broken(path, "the numbers of its network make no sense")),
    }
}
