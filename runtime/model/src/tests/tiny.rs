//! A writer of tiny models.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

use crate::error::Result;
use crate::{GeneratedReply, GenerationRequest, Generator, ModelFile, ReplyBounds};

pub(super) const TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + \
                                   message['content'] + '<|im_end|>' + '\n' }}{% endfor %}\
                                   {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// What a tiny network is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) family: &'static str,
    pub(super) width: usize,
    pub(super) inner: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_width: usize,
    /// How its matrices are stored.
    pub(super) kind: GgmlDType,
    /// Whether the embedding scores the tokens, too.
    pub(super) tied: bool,
}

pub(super) const LLAMA: Plan = Plan {
    family: "llama",
    width: 64,
    inner: 96,
    heads: 2,
    kv_heads: 1,
    head_width: 32,
    kind: GgmlDType::Q8_0,
    tied: true,
};
pub(super) const QWEN2: Plan = Plan { family: "qwen2", kv_heads: 2, tied: false, ..LLAMA };
/// Its heads are wider than its width divided by their number.
pub(super) const QWEN3: Plan = Plan { family: "qwen3", head_width: 48, ..LLAMA };

pub(super) const LAYERS: usize = 2;

/// A model that is not yet written.
pub(super) struct Tiny {
    pub(super) said: Vec<(String, Value)>,
    pub(super) tensors: Vec<(String, QTensor)>,
}

/// Numbers between -1 and 1 that look like chance.
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

pub(super) fn stored(numbers: Vec<f32>, dims: &[usize], kind: GgmlDType) -> QTensor {
    QTensor::quantize(&Tensor::from_vec(numbers, dims, &Device::Cpu).unwrap(), kind).unwrap()
}

pub(super) fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

pub(super) fn texts<S: AsRef<str>>(all: &[S]) -> Value {
    Value::Array(all.iter().map(|one| text(one.as_ref())).collect())
}

/// The letters of the 256 bytes, as byte-level vocabularies write them.
fn letters() -> Vec<String> {
    let printable: Vec<u32> = (33..=126).chain(161..=172).chain(174..=255).collect();
    let mut next = 256;
    (0..256u32)
        .map(|byte| {
            let letter = if printable.contains(&byte) {
                byte
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(letter).unwrap().to_string()
        })
        .collect()
}

const MERGES: [&str; 8] = ["h e", "l l", "he ll", "hell o", "Ġ t", "Ġt he", "r e", "Ġthe re"];

impl Tiny {
    /// A model with tokens that are made of bytes.
    pub(super) fn new(plan: Plan) -> Self {
        let mut names = letters();
        names.extend(MERGES.iter().map(|merge| merge.replace(' ', "")));
        let mut kinds = vec![Value::I32(1); names.len()];
        names.extend(["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned));
        kinds.extend([Value::I32(3), Value::I32(3), Value::I32(3)]);
        let mut tiny = Self::network(plan, names.len());
        tiny.say("tokenizer.ggml.model", text("gpt2"));
        tiny.say("tokenizer.ggml.pre", text(if plan.family == "llama" { "smollm" } else { "qwen2" }));
        tiny.say("tokenizer.ggml.eos_token_id", Value::U32(names.len() as u32 - 1));
        tiny.say("tokenizer.ggml.tokens", texts(&names));
        tiny.say("tokenizer.ggml.token_type", Value::Array(kinds));
        tiny.say("tokenizer.ggml.merges", texts(&MERGES));
        tiny.say("tokenizer.chat_template", text(TEMPLATE));
        tiny
    }

    /// A model with pieces that have scores.
    pub(super) fn with_pieces(plan: Plan) -> Self {
        let mut names: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).into();
        let mut kinds = vec![Value::I32(2), Value::I32(3), Value::I32(3)];
        names.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
        kinds.extend(vec![Value::I32(6); 256]);
        names.extend((b'!'..=b'~').map(|letter| char::from(letter).to_string()));
        names.extend(["\u{2581}", "he", "ll", "hell", "\u{2581}hell"].map(str::to_owned));
        kinds.resize(names.len(), Value::I32(1));
        let scores = (0..names.len()).map(|at| Value::F32(-(at as f32))).collect();
        let mut tiny = Self::network(plan, names.len());
        tiny.say("tokenizer.ggml.model", text("llama"));
        tiny.say("tokenizer.ggml.bos_token_id", Value::U32(1));
        tiny.say("tokenizer.ggml.eos_token_id", Value::U32(2));
        tiny.say("tokenizer.ggml.tokens", texts(&names));
        tiny.say("tokenizer.ggml.scores", Value::Array(scores));
        tiny.say("tokenizer.ggml.token_type", Value::Array(kinds));
        let template = "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}{{ eos_token }}\
                        {% endfor %}[assistant] ";
        tiny.say("tokenizer.chat_template", text(template));
        tiny
    }

    fn network(plan: Plan, vocabulary: usize) -> Self {
        let mut tiny = Self { said: Vec::new(), tensors: Vec::new() };
        tiny.say("general.architecture", text(plan.family));
        tiny.say("general.name", text("Tiny"));
        for (key, number) in [
            ("block_count", LAYERS),
            ("context_length", 512),
            ("embedding_length", plan.width),
            ("feed_forward_length", plan.inner),
            ("attention.head_count", plan.heads),
            ("attention.head_count_kv", plan.kv_heads),
            ("attention.key_length", plan.head_width),
        ] {
            tiny.say(&format!("{}.{key}", plan.family), Value::U32(number as u32));
        }
        tiny.say(&format!("{}.attention.layer_norm_rms_epsilon", plan.family), Value::F32(1e-5));
        tiny.say(&format!("{}.rope.freq_base", plan.family), Value::F32(10_000.0));
        let (queries, kept) = (plan.heads * plan.head_width, plan.kv_heads * plan.head_width);
        tiny.matrix("token_embd.weight", (vocabulary, plan.width), 1.0, plan.kind);
        tiny.near_one("output_norm.weight", plan.width);
        if !plan.tied {
            tiny.matrix("output.weight", (vocabulary, plan.width), 1.0, plan.kind);
        }
        for layer in 0..LAYERS {
            let of = |name: &str| format!("blk.{layer}.{name}");
            for (name, rows, columns) in [
                ("attn_q", queries, plan.width),
                ("attn_k", kept, plan.width),
                ("attn_v", kept, plan.width),
                ("attn_output", plan.width, queries),
                ("ffn_gate", plan.inner, plan.width),
                ("ffn_up", plan.inner, plan.width),
                ("ffn_down", plan.width, plan.inner),
            ] {
                let large = 2.0 / (columns as f32).sqrt();
                tiny.matrix(&of(&format!("{name}.weight")), (rows, columns), large, plan.kind);
                if plan.family == "qwen2" && matches!(name, "attn_q" | "attn_k" | "attn_v") {
                    tiny.vector(&of(&format!("{name}.bias")), noise(rows as u64 + layer as u64, rows));
                }
            }
            tiny.near_one(&of("attn_norm.weight"), plan.width);
            tiny.near_one(&of("ffn_norm.weight"), plan.width);
            if plan.family == "qwen3" {
                tiny.near_one(&of("attn_q_norm.weight"), plan.head_width);
                tiny.near_one(&of("attn_k_norm.weight"), plan.head_width);
            }
        }
        tiny
    }

    fn matrix(&mut self, name: &str, (rows, columns): (usize, usize), large: f32, kind: GgmlDType) {
        let numbers = noise(self.tensors.len() as u64 + 1, rows * columns).iter().map(|n| n * large).collect();
        self.tensors.push((name.to_owned(), stored(numbers, &[rows, columns], kind)));
    }

    pub(super) fn vector(&mut self, name: &str, numbers: Vec<f32>) {
        let count = numbers.len();
        self.without(name);
        self.tensors.push((name.to_owned(), stored(numbers, &[count], GgmlDType::F32)));
    }

    fn near_one(&mut self, name: &str, count: usize) {
        let numbers = noise(self.tensors.len() as u64 + 77, count).iter().map(|n| 1.0 + n / 4.0).collect();
        self.vector(name, numbers);
    }

    /// Says something under a key, in the place of what was said there.
    pub(super) fn say(&mut self, key: &str, value: Value) {
        self.unsay(key);
        self.said.push((key.to_owned(), value));
    }

    pub(super) fn unsay(&mut self, key: &str) {
        self.said.retain(|(said, _)| said != key);
    }

    pub(super) fn without(&mut self, tensor: &str) {
        self.tensors.retain(|(name, _)| name != tensor);
    }

    /// The GGUF file with all metadata and tensors.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let said: Vec<_> = self.said.iter().map(|(key, value)| (key.as_str(), value)).collect();
        let tensors: Vec<_> = self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = std::io::Cursor::new(Vec::new());
        gguf_file::write(&mut file, &said, &tensors).unwrap();
        file.into_inner()
    }

    pub(super) fn write(&self, directory: &Path) -> PathBuf {
        written(directory, &self.bytes())
    }
}

#[expect(clippy::disallowed_methods, reason = "a test has no brain to write through")]
pub(super) fn written(directory: &Path, bytes: &[u8]) -> PathBuf {
    let path = directory.join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Opens a file, loads it and lets it speak.
pub(super) fn speak(path: &Path, legal: &serde_json::Value, most_tokens: usize) -> Result<GeneratedReply> {
    let file = ModelFile::open(path)?;
    let mut speaker = Generator::load(&file, ReplyBounds { chars: 12, items: 2 }, 1 << 22, file.context())?;
    let messages = [("system", "You are tiny."), ("user", "hello there, 12 of you")];
    let question = GenerationRequest { messages: &messages, legal, most_tokens, most_bytes: 1 << 12, fresh: false };
    speaker.answer(&question, &AtomicBool::new(false))
}
